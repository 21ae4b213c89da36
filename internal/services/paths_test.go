package services_test

import (
	"errors"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/node/nodetest"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/services"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// Every method that takes a path refuses the names of streams and devices, in process too, before
// Windows gets them: of a path, Win32 and NTFS make a stream, a device or another name. The rules
// of the daemon refuse more, before the services (internal/policy).
func TestNoMethodPassesStreamsAndDevices(t *testing.T) {
	const dir = `C:\var\lib\kubelet\dir`
	em := nodetest.Open(t, nodespec.Config{
		Disks:       []nodespec.Disk{{Content: nodespec.ContentSystem}, {Size: 64 << 20, Content: nodespec.ContentGPT, Partitions: []nodespec.Partition{{FileSystem: "NTFS", Letter: "E"}}}},
		Directories: []string{dir, `C:\var\lib\kubelet\other`},
	}, emulated.Machine{})
	data, err := em.VolumeNameForMountPoint(`E:\`)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var attack string
	var passed []string
	n := node.New(win32.Observe(em, func(c *win32.Call) error {
		mu.Lock()
		if attack != "" && strings.Contains(strings.ToUpper(c.Path), strings.ToUpper(attack)) {
			passed = append(passed, c.Name+" "+c.Path)
		}
		mu.Unlock()
		return c.Do()
	}))
	n.Log = slog.New(slog.DiscardHandler)
	s, err := services.Open(n)
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{"Path", "TargetPath", "SourcePath", "LocalPath"}
	others := map[string]string{"VolumeID": data, "RemotePath": `\\server\share`}
	tried := 0
	for _, service := range []any{s.Disk, s.Filesystem, s.ISCSI, s.SMB, s.System, s.Volume} {
		v := reflect.ValueOf(service)
		for i := range v.NumMethod() {
			name, m := v.Type().Method(i).Name, v.Method(i)
			if m.Type().NumIn() != 2 || m.Type().In(1).Kind() != reflect.Pointer || name == "PathValid" { // as published, it says what Windows says
				continue
			}
			request := m.Type().In(1).Elem()
			for f := range request.NumField() {
				if !slices.Contains(paths, request.Field(f).Name) {
					continue
				}
				for _, of := range []struct{ text, mark string }{
					{dir + `:stream`, ":stream"}, {dir + `::$INDEX_ALLOCATION`, "$INDEX_ALLOCATION"}, {dir + `:$I30:$INDEX_ALLOCATION\x`, "$INDEX_ALLOCATION"}, {`\\?\` + dir + `:stream`, ":stream"},
					{dir + `\x.`, `\x.`}, {dir + `\x `, `\x `}, {`\\?\` + dir + `\x.`, `\x.`}, {dir + `\NUL`, `\NUL`}, {`\\?\` + dir + `\aux.txt`, `\aux`}, {dir + `\COM¹`, `\COM¹`}, {dir + `\CONOUT$\x`, `CONOUT$`},
					{`\\.\C:\var\lib\kubelet\dir`, `\\.\`}, {`\\?\GLOBALROOT\Device\HarddiskVolume1`, "GLOBALROOT"}, {`//./PhysicalDrive0`, "PhysicalDrive"}, {`\\.\pipe\x`, "pipe"}, {`\\?\Harddisk0Partition1\x`, "Harddisk0"},
					{`\??\C:\var\lib\kubelet\dir`, `\??\C:\??`}, {`C:dir`, `C:dir`}, {dir + "\\a\x00b", "a\x00"}, {dir + "\\\u202e\x1f", "\x1f"}, {dir + `\*`, `\*`}, {dir + `\a|b`, `a|b`},
				} {
					in := reflect.New(request)
					for g := range request.NumField() {
						switch other := request.Field(g).Name; {
						case slices.Contains(paths, other):
							in.Elem().Field(g).SetString(`C:\var\lib\kubelet\other`)
						case others[other] != "":
							in.Elem().Field(g).SetString(others[other])
						}
					}
					in.Elem().Field(f).SetString(of.text)
					mu.Lock()
					attack, passed = of.mark, nil
					mu.Unlock()
					out := m.Call([]reflect.Value{reflect.ValueOf(t.Context()), in})
					err, _ := out[1].Interface().(error)
					mu.Lock()
					if attack = ""; !errors.Is(err, hosterr.ErrInvalid) || len(passed) > 0 {
						t.Errorf("%s with %s %q: %v, Windows got %q; want ErrInvalid, and nothing", name, request.Field(f).Name, of.text, err, passed)
					}
					mu.Unlock()
					tried++
				}
			}
		}
	}
	if methods := tried / 22; methods < 14 {
		t.Errorf("%d fields of methods were tried, want those of all methods", methods)
	}
}
