package volume_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/services"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/behavior"
	diskapi "github.com/kubernetes-csi/csi-proxy/v2/pkg/disk/hostapi"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode/nodespec"
)

// writesTable reports whether a call can write a partition table: a control code that does, or
// a write to a disk itself.
func writesTable(c *win32.Call) bool {
	const deleteLayout, setLayout, setPartitionInfo, setPartitionInfoEx = 0x7C100, 0x7C010, 0x7C008, 0x7C04C // winioctl.h
	return slices.Contains([]uint32{win32.IOCTL_DISK_SET_DRIVE_LAYOUT_EX, win32.IOCTL_DISK_CREATE_DISK, win32.IOCTL_DISK_GROW_PARTITION,
		deleteLayout, setLayout, setPartitionInfo, setPartitionInfoEx}, c.Code) ||
		c.Name == "WriteAt" && !strings.Contains(c.Path, "Volume{")
}

// whole is one call of a method with every argument about the disk and its mounted volume.
type whole struct {
	name string
	call func(*fixture) error
}

// everyMethod returns all methods of the services, so that a new one is tested as well. Each is
// called with all its flags set, and with none.
func everyMethod(number uint32, id, target string) (all []whole) {
	of := reflect.TypeFor[services.Services]()
	for g := range of.NumField() {
		group := of.Field(g)
		for m := range group.Type.NumMethod() {
			method := group.Type.Method(m)
			if method.Type.NumIn() != 3 || method.Type.NumOut() != 2 { // not a request
				continue
			}
			for _, flags := range []bool{true, false} {
				in := reflect.New(method.Type.In(2).Elem())
				for i := range in.Elem().NumField() {
					f, name := in.Elem().Field(i), in.Elem().Type().Field(i).Name
					switch {
					case f.Kind() == reflect.Bool:
						f.SetBool(flags)
					case f.Kind() == reflect.Uint32:
						f.SetUint(uint64(number))
					case f.Kind() == reflect.String && strings.Contains(name, "Volume"):
						f.SetString(id)
					case f.Kind() == reflect.String:
						f.SetString(target)
					}
				}
				all = append(all, whole{group.Name + "." + method.Name, func(f *fixture) error {
					s, err := services.Open(f.Node.Node)
					if err != nil {
						return err
					}
					out := reflect.ValueOf(s).Elem().FieldByName(group.Name).MethodByName(method.Name).Call([]reflect.Value{reflect.ValueOf(f.t.Context()), in})
					err, _ = out[1].Interface().(error)
					return err
				}})
			}
		}
	}
	for _, c := range []diskapi.Clearing{{}, {Partition: 2}, {Behind: 2}} {
		all = append(all, whole{fmt.Sprintf("disk clear %+v", c), func(f *fixture) error {
			c.Identity = "one"
			_, err := diskapi.On(f.Node.Node).ClearDisk(number, c)
			return err
		}})
	}
	return all
}

// No method writes the partition table of a disk with a mounted volume, except for the growth of
// a partition.
func TestNoTableIsWrittenUnderAMountedVolume(t *testing.T) {
	const growth = "Volume.ResizeVolume"
	target := kubelet + `\m`
	wrote := map[string]bool{}
	for i := range everyMethod(1, "", "") {
		d := data(gib, "NTFS")
		d.Serial = "one"
		f := newFixture(t, nodespec.Config{World: behavior.In("", behavior.Windows{GPTEnd: behavior.GPTEndStays})}, d)
		f.mkdir(target)
		id := f.id(1)
		if err := errors.Join(f.mount(id, target), f.Windows.Grow(1, 2*gib)); err != nil {
			t.Fatal(err)
		}
		m := everyMethod(1, id, target)[i]
		f.Observe(func(c *win32.Call) error {
			if writesTable(c) {
				wrote[m.name] = true
				if m.name != growth {
					t.Errorf("%s: %v", m.name, c)
				}
			}
			return c.Do()
		})
		m.call(f) // most of them fail, and that is not what this is about
	}
	if len(wrote) != 1 {
		t.Errorf("%v wrote a table, want growth", wrote)
	}
}
