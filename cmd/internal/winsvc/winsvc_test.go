package winsvc

import (
	"testing"
	"time"
)

func TestPreshutdownLimit(t *testing.T) {
	for setting, want := range map[time.Duration]time.Duration{
		0:                     9 * time.Second, // it could not be read
		3 * time.Minute:       9 * time.Second, // the default of Windows before build 15063
		10 * time.Second:      9 * time.Second,
		90 * time.Second:      89 * time.Second,
		150 * time.Second:     119 * time.Second, // Windows ends services after two minutes
		time.Millisecond:      0,
		1 << 32 * time.Second: 9 * time.Second,
	} {
		if got := preshutdownLimit(setting); got != want {
			t.Errorf("preshutdownLimit(%v) = %v, want %v", setting, got, want)
		}
	}
}
