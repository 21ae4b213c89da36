package storage

import (
	"errors"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// The mount manager lists a volume under its letters, and may know it by several names.
func TestOnlyName(t *testing.T) {
	const one, two = `Volume{11111111-0000-4000-8000-000000000000}`, `Volume{22222222-0000-4000-8000-000000000000}`
	points := func(links ...string) (all []win32.MountPoint) {
		for _, l := range links {
			all = append(all, win32.MountPoint{Link: l, Device: `\Device\HarddiskVolume1`})
		}
		return all
	}
	if id, err := onlyName(points(`\DosDevices\E:`, `\??\`+one)); err != nil || id != `\\?\`+one+`\` {
		t.Errorf("with a letter: %q, %v, want %s", id, err, one)
	}
	for what, p := range map[string][]win32.MountPoint{"none": nil, "only a letter": points(`\DosDevices\E:`), "not a volume": points(`\??\Volume{1}`)} {
		if id, err := onlyName(p); !errors.Is(err, hosterr.ErrNotFound) {
			t.Errorf("%s: %q, %v, want not found", what, id, err)
		}
	}
	// Which of them FindFirstVolume returns is not known.
	if id, err := onlyName(points(`\??\`+one, `\??\`+two)); err == nil || errors.Is(err, hosterr.ErrNotFound) {
		t.Errorf("two names: %q, %v, want an error that makes the caller search", id, err)
	}
}
