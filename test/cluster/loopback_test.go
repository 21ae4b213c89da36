package cluster

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// loopback checks that no program of the cluster listens on another address than loopback.
func loopback(t *testing.T, c *Cluster) {
	t.Helper()
	all := c.Servers.Processes()
	for _, n := range c.Nodes {
		all = append(all, n.Processes()...)
	}
	listening, err := listeners()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	pids := map[int]string{os.Getpid(): "the test, which serves what the programs call"}
	for _, p := range all {
		pids[p.PID()] = p.Name
	}
	for pid, name := range pids {
		inodes, err := sockets(pid)
		if err != nil {
			t.Fatal(err)
		}
		for _, inode := range inodes {
			at, ok := listening[inode]
			if !ok {
				continue
			}
			found[name]++
			if !at.Addr().Unmap().IsLoopback() {
				t.Errorf("%s listens on %s, which other machines may reach", name, at)
			}
		}
	}
	// That they are found shows that this test sees.
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet"} {
		if found[name] == 0 {
			t.Errorf("no listener of %s was found", name)
		}
	}
	if found["etcd"] > 0 {
		t.Errorf("etcd listens on TCP, where every user of the machine reaches it")
	}
	measured(t, "programs that listen on loopback, with how many ports: %v", found)
}

// listeners returns the addresses on which the machine's programs listen, by the inode of the
// socket.
func listeners() (map[string]netip.AddrPort, error) {
	all := map[string]netip.AddrPort{}
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n")[1:] {
			fields := strings.Fields(line)
			const listen = "0A"
			if len(fields) < 10 || fields[3] != listen {
				continue
			}
			at, err := address(fields[1])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			all[fields[9]] = at
		}
	}
	return all, nil
}

// address parses an address of /proc/net/tcp: 32 bits at a time, each in the machine's order.
func address(text string) (netip.AddrPort, error) {
	host, port, _ := strings.Cut(text, ":")
	b, err := hex.DecodeString(host)
	if err != nil || len(b)%4 != 0 {
		return netip.AddrPort{}, fmt.Errorf("address %q", text)
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	addr, ok := netip.AddrFromSlice(b)
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil || !ok {
		return netip.AddrPort{}, fmt.Errorf("address %q", text)
	}
	return netip.AddrPortFrom(addr, uint16(n)), nil
}

// sockets returns the inodes of the sockets that a process has open.
func sockets(pid int) ([]string, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("process %d has no open files, or may not be looked at", pid)
	}
	var inodes []string
	for _, file := range files {
		to, err := os.Readlink(file)
		if err != nil {
			continue // closed since
		}
		if inode, ok := strings.CutPrefix(to, "socket:["); ok {
			inodes = append(inodes, strings.TrimSuffix(inode, "]"))
		}
	}
	return inodes, nil
}

// Ports that are reserved at the same time differ, and nothing listens on them. The program that
// is to have one can listen on it.
func TestReservePort(t *testing.T) {
	reserved := map[string]bool{}
	for range 10 {
		port, release, err := reservePort()
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		if reserved[port] {
			t.Errorf("port %s is reserved twice", port)
		}
		reserved[port] = true
		if err := listens(port)(); err == nil {
			t.Errorf("a program listens on the reserved port %s", port)
		}
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if err := listens(port)(); err != nil {
			t.Error(err)
		}
	}
}
