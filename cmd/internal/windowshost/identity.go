package windowshost

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// namesAge is how long the names and addresses of this machine are believed. A network
// plugin or DHCP can add an address at any time.
const namesAge = 10 * time.Second

// identity knows under which names and addresses this machine can be reached.
type identity struct {
	api       win32.Installation
	addresses func() ([]net.Addr, error)
	now       func() time.Time

	mu    sync.Mutex
	known []string
	read  time.Time
}

// names returns the names and addresses of this machine, except localhost.
func (i *identity) names() ([]string, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if age := i.now().Sub(i.read); i.known != nil && 0 <= age && age < namesAge {
		return i.known, nil
	}
	var names []string
	// In a failover cluster the first three are those of a virtual server.
	for _, kind := range []uint32{
		win32.ComputerNameNetBIOS, win32.ComputerNameDnsHostname, win32.ComputerNameDnsFullyQualified,
		win32.ComputerNamePhysicalNetBIOS, win32.ComputerNamePhysicalDnsHostname, win32.ComputerNamePhysicalDnsFullyQualified,
	} {
		name, err := i.api.ComputerName(kind)
		if err != nil {
			return nil, fmt.Errorf("read the name of this machine: %w", err)
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	addrs, err := i.addresses()
	if err != nil {
		return nil, fmt.Errorf("read the addresses of this machine: %w", err)
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			names = append(names, p.Addr().WithZone("").String())
		}
	}
	i.known, i.read = names, i.now()
	return names, nil
}
