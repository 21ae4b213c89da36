package windowshost

import (
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// machine has a name of each kind, in Windows' numbers.
type machine map[uint32]string

func (machine) RegistryText(string, string) ([]string, error) { panic("not asked") }

func (machine) WindowsDirectory() (string, error) { panic("not asked") }

func (m machine) ComputerName(kind uint32) (string, error) {
	name, ok := m[kind]
	if !ok {
		return "", win32.ERROR_INVALID_PARAMETER
	}
	return name, nil
}

// An address that a network plugin or DHCP gave to the node after csi-proxy started is one
// of the node, too. So is each of its names.
func TestNamesAreThoseOfNow(t *testing.T) {
	clock := time.Now()
	addrs := []net.Addr{&net.IPNet{IP: net.IPv4(10, 0, 0, 5), Mask: net.CIDRMask(24, 32)}}
	i := &identity{
		// 2 and 6 are domains.
		api:       machine{0: "WIN-NODE-1-WITH", 1: "win-node-1-with-a-long-name", 3: "win-node-1-with-a-long-name.corp.example.com", 4: "PHYSICAL-1", 5: "physical-1", 7: "physical-1.corp.example.com"},
		addresses: func() ([]net.Addr, error) { return addrs, nil },
		now:       func() time.Time { return clock },
	}
	want := []string{"WIN-NODE-1-WITH", "win-node-1-with-a-long-name", "win-node-1-with-a-long-name.corp.example.com", "PHYSICAL-1", "physical-1", "physical-1.corp.example.com", "10.0.0.5"}
	look := func(when string, want []string) {
		t.Helper()
		if got, err := i.names(); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", when, got, err, want)
		}
	}
	look("at first", want)
	addrs = append(addrs, &net.IPNet{IP: net.ParseIP("fd00::5"), Mask: net.CIDRMask(64, 128)})
	look("at once", want)
	clock = clock.Add(namesAge)
	look("after a while", append(want, "fd00::5"))

	failed := errors.New("no addresses")
	i.addresses = func() ([]net.Addr, error) { return nil, failed }
	clock = clock.Add(namesAge)
	if got, err := i.names(); !errors.Is(err, failed) {
		t.Errorf("names = %q, %v, want the failure and not what was known before", got, err)
	}
}
