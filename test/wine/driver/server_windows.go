package driver

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
)

// Server serves the driver's requests from a model of a node: requests about
// disks and volumes, those of the mount manager, and those of the DLLs (dlls.go).
type Server struct {
	model  win32.API // the state
	api    win32.API // the calls: the model with a test's hooks around it
	driver *control

	mu           sync.Mutex
	devices      map[string]device // by all of their names
	number       uint32
	paths        []string // the known disk interfaces
	handles      map[uint64]*opened
	formatEvents func(error) []Event // nil for the usual ones
	logins       []Login

	mappings    []Mapping
	sessionOnly bool
	own         []win32.Use // mappings of the logon session
}

type device struct {
	number uint32
	path   string
	volume bool
}

// opened is an open file of the driver.
type opened struct {
	device
	share uint32

	mu     sync.Mutex
	query  win32.Handle // without access to data
	data   win32.Handle // with all access, opened when needed
	failed error        // the error of opening query
}

// Sync updates the driver's devices to those of the model.
func (s *Server) Sync() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	wanted, paths, err := s.present()
	if err != nil {
		return err
	}
	for all, d := range s.devices {
		if _, ok := wanted[all]; !ok {
			delete(s.devices, all)
			if err := s.driver.remove(d.number); err != nil {
				return fmt.Errorf("remove %s: %w", d.path, err)
			}
		}
	}
	for all, d := range wanted {
		if _, ok := s.devices[all]; ok {
			continue
		}
		s.number++
		d.number = s.number
		if err := s.driver.add(d.number, strings.Split(all, separator)); err != nil {
			return fmt.Errorf("add %s: %w", d.path, err)
		}
		s.devices[all] = d
	}
	if slices.Equal(paths, s.paths) {
		return nil
	}
	s.paths = paths
	return s.driver.interfaces(paths)
}

// separator separates the names in a key.
const separator = "|"

// present returns the model's devices by their names in the object manager, and
// the disk interfaces. A disk that is attached again under another number is a
// new device.
func (s *Server) present() (devices map[string]device, interfaces []string, err error) {
	devices = map[string]device{}
	disks, err := s.model.Interfaces()
	if err != nil {
		return nil, nil, err
	}
	for _, i := range disks {
		n, err := s.diskNumber(i.Path)
		if err != nil {
			return nil, nil, err
		}
		drive := fmt.Sprintf(`PhysicalDrive%d`, n)
		devices[`\??\`+drive+separator+`\??\`+i.Path[4:]] = device{path: `\\.\` + drive}
		interfaces = append(interfaces, i.Path)
		for _, place := range s.places(n) {
			devices[`\??\`+place] = device{path: `\\?\` + place, volume: true}
		}
	}
	volumes, err := s.model.VolumeNames()
	for _, v := range volumes {
		path := strings.TrimSuffix(v, `\`)
		all := `\??\` + path[4:]
		letters, err := s.model.VolumePathNames(v)
		if err != nil {
			return nil, nil, err
		}
		for _, l := range letters {
			if letter := strings.TrimSuffix(l, `\`); len(letter) == 2 && letter != "C:" { // Wine's own files are on C:
				all += separator + `\??\` + letter
			}
		}
		devices[all] = device{path: path, volume: true}
	}
	return devices, interfaces, err
}

// maxPartitions is more than any disk of a test has.
const maxPartitions = 16

// places returns the names of the volumes on a disk by their place, such as
// "Harddisk1Partition2".
func (s *Server) places(disk uint32) []string {
	var names []string
	for partition := 1; partition <= maxPartitions; partition++ {
		name := fmt.Sprintf("Harddisk%dPartition%d", disk, partition)
		h, err := s.model.CreateFile(`\\?\`+name, 0, win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE, win32.OPEN_EXISTING, 0)
		if err != nil {
			continue // no volume there
		}
		s.model.CloseHandle(h)
		names = append(names, name)
	}
	return names
}

func (s *Server) diskNumber(path string) (uint32, error) {
	h, err := s.model.CreateFile(path, 0, win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE, win32.OPEN_EXISTING, 0)
	if err != nil {
		return 0, err
	}
	defer s.model.CloseHandle(h)
	out := make([]byte, win32.SizeofDeviceNumber)
	n, err := s.model.DeviceIoControl(h, win32.IOCTL_STORAGE_GET_DEVICE_NUMBER, nil, out)
	if err != nil {
		return 0, err
	}
	number, err := win32.DecodeDeviceNumber(out[:n])
	return number.DeviceNumber, err
}

// answer returns the reply to a request.
func (s *Server) answer(r request) reply {
	out, err := s.do(r)
	if uint64(len(out)) > uint64(r.out) {
		slog.Error("Dropped a reply that is longer than the output buffer", "operation", r.operation, "code", r.code, "bytes", len(out), "bufferSize", r.out)
		out, err = nil, win32.ERROR_INSUFFICIENT_BUFFER
	}
	return reply{id: r.id, status: statusOf(err), out: out}
}

func (s *Server) do(r request) ([]byte, error) {
	switch r.operation {
	case opPoints:
		if err := s.Sync(); err != nil {
			return nil, err
		}
		return s.points(r.in, r.out)
	case opCall:
		out, err := s.call(r.in)
		if err == nil {
			err = s.Sync()
		}
		return out, err
	}
	s.mu.Lock()
	o := s.handles[r.handle]
	s.mu.Unlock()
	if o == nil {
		return nil, win32.ERROR_INVALID_HANDLE
	}
	if o.failed != nil {
		return nil, o.failed
	}
	switch r.operation {
	case opControl:
		return s.control(o, r)
	case opRead:
		h, err := o.forData(s.api)
		if err != nil {
			return nil, err
		}
		out := make([]byte, r.out)
		n, err := s.api.ReadAt(h, out, r.offset)
		return out[:n], err
	case opWrite:
		h, err := o.forData(s.api)
		if err != nil {
			return nil, err
		}
		_, err = s.api.WriteAt(h, r.in, r.offset)
		return nil, err
	case opFlush:
		h, err := o.forData(s.api)
		if err != nil {
			return nil, err
		}
		return nil, s.api.FlushFileBuffers(h)
	case opVolume:
		return s.volumeInformation(o, r.code, r.out)
	}
	return nil, win32.ERROR_INVALID_FUNCTION
}

// create opens a device of the model. The driver does not learn the access, so
// the handle has no access to data until it is used for data. Wine does not wait
// for the reply either: an error is returned by the first use.
func (s *Server) create(r request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &opened{share: r.share, failed: win32.ERROR_FILE_NOT_FOUND}
	for _, d := range s.devices {
		if d.number == r.device {
			o.device = d
			o.query, o.failed = s.api.CreateFile(o.path, 0, o.share, win32.OPEN_EXISTING, 0)
		}
	}
	s.handles[r.handle] = o
}

// close ends what create began.
func (s *Server) close(r request) error {
	s.mu.Lock()
	o := s.handles[r.handle]
	delete(s.handles, r.handle)
	s.mu.Unlock()
	if o == nil {
		return win32.ERROR_INVALID_HANDLE
	}
	return o.close(s.api)
}

// forData returns the handle with access to data.
func (o *opened) forData(api win32.API) (win32.Handle, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.data == 0 {
		h, err := api.CreateFile(o.path, win32.GENERIC_READ|win32.GENERIC_WRITE, o.share, win32.OPEN_EXISTING, 0)
		if err != nil {
			return 0, err
		}
		o.data = h
	}
	return o.data, nil
}

func (o *opened) close(api win32.API) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, h := range []win32.Handle{o.query, o.data} {
		if h == 0 {
			continue
		}
		if err := api.CloseHandle(h); err != nil {
			return err
		}
	}
	return nil
}

// control passes a control code on. Wine has checked that the handle has the
// access that the code requires. Codes for a file system go to a handle with
// access to data.
func (s *Server) control(o *opened, r request) ([]byte, error) {
	h := o.query
	if r.code>>14&3 != 0 || r.code>>16 == fileSystem {
		var err error
		if h, err = o.forData(s.api); err != nil {
			return nil, err
		}
	}
	out := make([]byte, r.out)
	n, err := s.api.DeviceIoControl(h, r.code, r.in, out)
	if r.code>>15&1 != 0 || r.code == win32.IOCTL_DISK_UPDATE_PROPERTIES {
		if err := s.Sync(); err != nil { // disks and volumes may have appeared or disappeared
			return nil, err
		}
	}
	return out[:n], err
}

const fileSystem = 9 // FILE_DEVICE_FILE_SYSTEM

// Information classes of NtQueryVolumeInformationFile (FS_INFORMATION_CLASS).
const (
	fsVolume    = 1
	fsSize      = 3
	fsDevice    = 4
	fsAttribute = 5
	fsFullSize  = 7
)

// volumeInformation is the basis of GetVolumeInformation and GetDiskFreeSpaceEx.
func (s *Server) volumeInformation(o *opened, class, room uint32) ([]byte, error) {
	le := binary.LittleEndian
	if class == fsDevice {
		const device, readable = 7, 0x20 // FILE_DEVICE_DISK, FILE_DEVICE_IS_MOUNTED
		return le.AppendUint32(le.AppendUint32(nil, device), readable), nil
	}
	if !o.volume {
		return nil, win32.ERROR_INVALID_PARAMETER
	}
	root := o.path + `\`
	var b []byte
	switch class {
	case fsVolume, fsAttribute:
		info, err := s.api.VolumeInformation(root)
		if err != nil {
			return nil, err
		}
		text := win32.UTF16(info.Label)
		if class == fsVolume {
			b = le.AppendUint64(nil, 0) // creation time
			b = le.AppendUint32(b, info.SerialNumber)
			b = le.AppendUint32(b, uint32(2*len(text)))
			b = append(b, 0, 0) // object identifiers
		} else {
			text = win32.UTF16(info.FileSystem)
			b = le.AppendUint32(nil, info.Flags)
			b = le.AppendUint32(b, info.MaxComponent)
			b = le.AppendUint32(b, uint32(2*len(text)))
		}
		for _, u := range text {
			b = le.AppendUint16(b, u)
		}
	case fsSize, fsFullSize:
		avail, total, free, err := s.api.FreeSpace(root)
		if err != nil {
			return nil, err
		}
		const unit = 512 // bytes; every cluster is a multiple of it
		b = le.AppendUint64(nil, total/unit)
		b = le.AppendUint64(b, avail/unit)
		if class == fsFullSize {
			b = le.AppendUint64(b, free/unit)
		}
		b = le.AppendUint32(b, 1)
		b = le.AppendUint32(b, unit)
	default:
		return nil, win32.ERROR_INVALID_PARAMETER
	}
	if uint32(len(b)) > room {
		return b[:room], win32.ERROR_MORE_DATA
	}
	return b, nil
}

// closeAll closes the handles that a program has left open.
func (s *Server) closeAll() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []error
	for id, o := range s.handles {
		delete(s.handles, id)
		all = append(all, o.close(s.model))
	}
	return errors.Join(all...)
}
