package driver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
	"golang.org/x/sys/windows/svc/mgr"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/node"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// Load copies the driver and the DLLs from dir to Windows' directories and starts
// the driver, if it is not running.
func Load(dir string) error {
	if c, err := openControl(); err == nil {
		return c.close()
	}
	system, err := windows.GetSystemDirectory()
	if err != nil {
		return err
	}
	driver := filepath.Join(system, "drivers", "node.sys")
	for _, name := range []string{"node.sys", "fmifs.dll", "iscsidsc.dll", "cfgmgr32.dll", "netapi32.dll"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		to := filepath.Join(system, name)
		if name == "node.sys" {
			to = driver
		}
		if err := os.WriteFile(to, b, 0o644); err != nil {
			return err
		}
	}
	m, err := mgr.Connect()
	if err != nil {
		return fmt.Errorf("connect to the service control manager: %w", err)
	}
	defer m.Disconnect()
	const name = "csi-proxy-node"
	wide, path := windows.StringToUTF16Ptr(name), windows.StringToUTF16Ptr(driver)
	h, err := windows.CreateService(m.Handle, wide, wide, windows.SERVICE_ALL_ACCESS, windows.SERVICE_KERNEL_DRIVER,
		windows.SERVICE_DEMAND_START, windows.SERVICE_ERROR_NORMAL, path, nil, nil, nil, nil, nil)
	if errors.Is(err, windows.ERROR_SERVICE_EXISTS) {
		h, err = windows.OpenService(m.Handle, wide, windows.SERVICE_ALL_ACCESS)
	}
	if err != nil {
		return fmt.Errorf("create the service %s: %w", name, err)
	}
	defer windows.CloseServiceHandle(h)
	// Right after Windows has started, its service database may be locked.
	pace := node.Pace{Pause: 100 * time.Millisecond, Limit: 2 * time.Minute}
	err = node.Poll(context.Background(), node.SystemClock{}, pace, func() (bool, error) {
		err := windows.StartService(h, 0, nil)
		return !errors.Is(err, windows.ERROR_SERVICE_DATABASE_LOCKED), err
	})
	if err != nil && !errors.Is(err, windows.ERROR_SERVICE_ALREADY_RUNNING) {
		return fmt.Errorf("start the driver: %w", err)
	}
	return nil
}

// control is a handle of the driver's control device.
type control struct {
	h     windows.Handle
	known []string // disk interfaces in the registry
}

func openControl() (*control, error) {
	h, err := windows.CreateFile(windows.StringToUTF16Ptr(`\\.\CSIProxyNode`), windows.GENERIC_READ|windows.GENERIC_WRITE,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE, nil, windows.OPEN_EXISTING, 0, 0)
	if err != nil {
		return nil, fmt.Errorf("open the driver: %w", err)
	}
	return &control{h: h}, nil
}

func (c *control) do(code uint32, in, out []byte) ([]byte, error) {
	var n uint32
	first := func(b []byte) *byte {
		if len(b) == 0 {
			return nil
		}
		return &b[0]
	}
	err := windows.DeviceIoControl(c.h, code, first(in), uint32(len(in)), first(out), uint32(len(out)), &n, nil)
	return out[:min(int(n), len(out))], err
}

func (c *control) close() error { return windows.CloseHandle(c.h) }

// add creates a device.
func (c *control) add(number uint32, names []string) error {
	_, err := c.do(codeAdd, encodeDevice(number, names), nil)
	return err
}

// remove removes the names of a device.
func (c *control) remove(number uint32) error {
	_, err := c.do(codeRemove, binary.LittleEndian.AppendUint32(nil, number), nil)
	return err
}

// dosDevice returns the device of a drive letter, "E:".
func (c *control) dosDevice(letter string) (string, error) {
	var buf [windows.MAX_PATH]uint16
	_, err := windows.QueryDosDevice(windows.StringToUTF16Ptr(letter), &buf[0], uint32(len(buf)))
	return windows.UTF16ToString(buf[:]), err
}

// Registry keys in which SetupDi finds devices.
const (
	enumKey    = `SYSTEM\CurrentControlSet\Enum\`
	classesKey = `SYSTEM\CurrentControlSet\Control\DeviceClasses\`
	diskClass  = "{4d36e967-e325-11ce-bfc1-08002be10318}" // GUID_DEVCLASS_DISKDRIVE
)

// interfaces writes the keys that a class installer creates for a disk.
func (c *control) interfaces(paths []string) error {
	class := classesKey + win32.GUID_DEVINTERFACE_DISK.String()
	for _, p := range c.known {
		if !slices.Contains(paths, p) {
			if err := deleteTree(registry.LOCAL_MACHINE, class+`\##?#`+p[4:]); err != nil {
				return fmt.Errorf("unregister %s: %w", p, err)
			}
		}
	}
	set := func(path string, values map[string]any) error {
		k, _, err := registry.CreateKey(registry.LOCAL_MACHINE, path, registry.ALL_ACCESS)
		if err != nil {
			return err
		}
		defer k.Close()
		for name, v := range values {
			switch v := v.(type) {
			case string:
				err = errors.Join(err, k.SetStringValue(name, v))
			case uint32:
				err = errors.Join(err, k.SetDWordValue(name, v))
			}
		}
		return err
	}
	known := c.known
	c.known = paths
	for _, p := range paths {
		if slices.Contains(known, p) {
			continue
		}
		bare := p[4:] // scsi#disk&…#id#{class}
		instance := strings.ReplaceAll(bare[:strings.LastIndexByte(bare, '#')], "#", `\`)
		key := class + `\##?#` + bare
		err := errors.Join(
			set(enumKey+instance, map[string]any{"ClassGUID": diskClass, "Class": "DiskDrive", "DeviceDesc": "Disk drive"}),
			set(key, map[string]any{"DeviceInstance": instance}),
			set(key+`\Control`, map[string]any{"Linked": uint32(1)}),
			set(key+`\#`, map[string]any{"SymbolicLink": p}),
			set(key+`\#\Control`, map[string]any{"Linked": uint32(1)}))
		if err != nil {
			return fmt.Errorf("register %s: %w", p, err)
		}
	}
	return nil
}

func deleteTree(root registry.Key, path string) error {
	k, err := registry.OpenKey(root, path, registry.ALL_ACCESS)
	if errors.Is(err, registry.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := k.ReadSubKeyNames(-1)
	k.Close()
	for _, name := range names {
		err = errors.Join(err, deleteTree(root, path+`\`+name))
	}
	return errors.Join(err, registry.DeleteKey(root, path))
}

// Serve serves the driver's requests from model, through api, until stop is
// called; api is model with a test's hooks around it. From then on the disks,
// volumes and mount points of this Windows are the model's.
func Serve(model, api win32.API) (s *Server, stop func() error, err error) {
	serving, err := openControl()
	if err != nil {
		return nil, nil, err
	}
	other, err := openControl()
	if err != nil {
		return nil, nil, errors.Join(err, serving.close())
	}
	s = &Server{model: model, api: api, driver: other, devices: map[string]device{}, handles: map[uint64]*opened{}}
	if _, err := serving.do(codeStart, nil, nil); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("start serving: %w", err), serving.close(), other.close())
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.loop(serving, other)
	}()
	stop = func() error {
		_, err := other.do(codeStop, nil, nil)
		<-done
		return errors.Join(err, s.closeAll(), other.interfaces(nil), other.close(), serving.close())
	}
	if err := s.Sync(); err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return s, stop, nil
}

// maxRequest is the size of the longest request in bytes. The longest are writes.
const maxRequest = 8 << 20

// loop serves one request after the other. Each gets its own goroutine, because
// one may wait for another; opens and closes run in order.
func (s *Server) loop(serving, replies *control) {
	buf := make([]byte, maxRequest)
	for {
		b, err := serving.do(codeServe, nil, buf)
		if errors.Is(err, windows.ERROR_OPERATION_ABORTED) {
			return
		}
		var r request
		if err == nil {
			r, err = decodeRequest(append([]byte(nil), b...))
		}
		if err != nil {
			slog.Error("Stopped serving the driver's requests", "err", err)
			return
		}
		switch r.operation {
		case opCreate:
			s.create(r)
			continue
		case opClose:
			if err := s.close(r); err != nil {
				slog.Error("Failed to close a handle", "err", err)
			}
			continue
		}
		go func() {
			if _, err := replies.do(codeReply, s.answer(r).encode(), nil); err != nil {
				slog.Error("Failed to send a reply to the driver", "operation", r.operation, "code", r.code, "err", err)
			}
		}()
	}
}
