package win32

import (
	"bytes"
	"fmt"
	"sync"
)

// Call is one call of an [API], as the hook of [Observe] gets it.
type Call struct {
	Name string // the method's name, "DeviceIoControl"
	// The arguments. Those that a method does not have are zero. Path is the
	// given path or volume; for a call on a handle, it is the path that was
	// opened.
	Path   string
	Handle Handle
	Code   uint32 // control code or information class
	// Disposition of CreateFile and NtCreateFile
	Disposition uint32
	In          []byte // input buffer, as the callee will read it
	Out         []byte // output buffer; filled in after Do
	N           int    // bytes of Out that are valid, after Do

	do func() error
}

// Do makes the call. A hook that returns without calling Do replaces the call; a
// hook may also work before and after it.
func (c *Call) Do() error { return c.do() }

// String returns one line for a trace, without the contents of buffers.
func (c *Call) String() string {
	s := c.Name
	if c.Path != "" {
		s += fmt.Sprintf(" %q", c.Path)
	}
	if c.Code != 0 {
		s += fmt.Sprintf(" %#x", c.Code)
	}
	return s
}

// Observe calls hook for every call of api. It is the only mechanism for tracing,
// counting, delays and faults, on Windows and on the emulated node: a hook
// returns c.Do() to let a call pass, or an [Errno] or [NTStatus] to make it fail.
// hook must be safe for concurrent use.
func Observe(api API, hook func(*Call) error) API {
	return &observed{api: api, hook: hook, wanted: func() bool { return true }, opened: &opened{paths: map[Handle]string{}}}
}

// CallIn returns the name of the call in which a goroutine is, of which it has the stack, or
// "" if it is in none. It knows calls of APIs that [Observe] returned.
func CallIn(stack []byte) string {
	for {
		_, rest, ok := bytes.Cut(stack, []byte("/internal/win32.(*observed)."))
		if !ok {
			return ""
		}
		if n := bytes.IndexAny(rest, ".("); n > 0 && 'A' <= rest[0] && rest[0] <= 'Z' {
			return string(rest[:n])
		}
		stack = rest
	}
}

type observed struct {
	api  API
	hook func(*Call) error
	// wanted reports whether the hook does anything. The calls of which a request makes many
	// ask it first, because a hook costs more than most of them.
	wanted func() bool
	// note, if set, gets the calls that failed or may have changed the node without the hook.
	note func(c *Call, err error)
	*opened
}

// pass passes on a call that failed or may have changed the node without the hook. c does not
// escape when nothing is passed on.
func (o *observed) pass(c Call, err error) {
	if o.note != nil {
		o.note(&c, err)
	}
}

// opened is the path that each open handle was opened with.
type opened struct {
	mu    sync.Mutex
	paths map[Handle]string
}

func (o *opened) path(h Handle) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.paths[h]
}

func (o *opened) add(h Handle, path string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.paths[h] = path
}

// remove forgets a handle before it is closed, and returns its path.
func (o *opened) remove(h Handle) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	path := o.paths[h]
	delete(o.paths, h)
	return path
}

func (o *observed) call(c Call, do func(c *Call) error) error {
	c.do = func() error { return do(&c) }
	return o.hook(&c)
}

// answer is call for a method with a value, which is zero if the hook does not make the call.
func answer[T any](o *observed, c Call, do func() (T, error)) (v T, err error) {
	err = o.call(c, func(*Call) (err error) {
		v, err = do()
		return err
	})
	return v, err
}

func (o *observed) CreateFile(path string, access, share, disposition, flags uint32) (h Handle, err error) {
	err = o.call(Call{Name: "CreateFile", Path: path, Disposition: disposition}, func(c *Call) (err error) {
		h, err = o.api.CreateFile(path, access, share, disposition, flags)
		if err == nil {
			c.Handle = h
			o.add(h, path)
		}
		return err
	})
	return h, err
}

func (o *observed) CloseHandle(h Handle) error {
	if !o.wanted() {
		path := o.remove(h) // CreateFile added it
		err := o.api.CloseHandle(h)
		if err != nil {
			o.pass(Call{Name: "CloseHandle", Path: path}, err)
		}
		return err
	}
	return o.call(Call{Name: "CloseHandle", Handle: h, Path: o.path(h)}, func(*Call) error {
		o.remove(h)
		return o.api.CloseHandle(h)
	})
}

func (o *observed) DeviceIoControl(h Handle, code uint32, in, out []byte) (int, error) {
	if !o.wanted() {
		n, err := o.api.DeviceIoControl(h, code, in, out)
		if err != nil || !lookingCode(code) {
			o.pass(Call{Name: "DeviceIoControl", Path: o.path(h), Code: code}, err)
		}
		return n, err
	}
	var n int // on the heap, because of the closure
	err := o.call(Call{Name: "DeviceIoControl", Handle: h, Path: o.path(h), Code: code, In: in, Out: out}, func(c *Call) (err error) {
		n, err = o.api.DeviceIoControl(h, code, in, out)
		c.N = n
		return err
	})
	return n, err
}

func (o *observed) ReadAt(h Handle, p []byte, off int64) (n int, err error) {
	err = o.call(Call{Name: "ReadAt", Handle: h, Path: o.path(h), Out: p}, func(c *Call) (err error) {
		n, err = o.api.ReadAt(h, p, off)
		c.N = n
		return err
	})
	return n, err
}

func (o *observed) WriteAt(h Handle, p []byte, off int64) (int, error) {
	return answer(o, Call{Name: "WriteAt", Handle: h, Path: o.path(h), In: p}, func() (int, error) { return o.api.WriteAt(h, p, off) })
}

func (o *observed) FlushFileBuffers(h Handle) error {
	return o.call(Call{Name: "FlushFileBuffers", Handle: h, Path: o.path(h)}, func(*Call) error {
		return o.api.FlushFileBuffers(h)
	})
}

func (o *observed) Interfaces() ([]Interface, error) {
	return answer(o, Call{Name: "Interfaces"}, func() ([]Interface, error) { return o.api.Interfaces() })
}

func (o *observed) Reenumerate() error {
	return o.call(Call{Name: "Reenumerate"}, func(*Call) error { return o.api.Reenumerate() })
}

func (o *observed) OfflineReasons() (map[uint32]uint16, error) {
	return answer(o, Call{Name: "OfflineReasons"}, func() (map[uint32]uint16, error) { return o.api.OfflineReasons() })
}

func (o *observed) VolumeNames() ([]string, error) {
	return answer(o, Call{Name: "VolumeNames"}, func() ([]string, error) { return o.api.VolumeNames() })
}

func (o *observed) VolumeInformation(root string) (VolumeInfo, error) {
	return answer(o, Call{Name: "VolumeInformation", Path: root}, func() (VolumeInfo, error) { return o.api.VolumeInformation(root) })
}

func (o *observed) FreeSpace(root string) (avail, total, free uint64, err error) {
	err = o.call(Call{Name: "FreeSpace", Path: root}, func(*Call) (err error) {
		avail, total, free, err = o.api.FreeSpace(root)
		return err
	})
	return avail, total, free, err
}

func (o *observed) VolumePathName(p string) (string, error) {
	return answer(o, Call{Name: "VolumePathName", Path: p}, func() (string, error) { return o.api.VolumePathName(p) })
}

func (o *observed) VolumeNameForMountPoint(root string) (string, error) {
	return answer(o, Call{Name: "VolumeNameForMountPoint", Path: root}, func() (string, error) { return o.api.VolumeNameForMountPoint(root) })
}

func (o *observed) VolumePathNames(vol string) ([]string, error) {
	return answer(o, Call{Name: "VolumePathNames", Path: vol}, func() ([]string, error) { return o.api.VolumePathNames(vol) })
}

func (o *observed) SetMountPoint(dir, vol string) error {
	return o.call(Call{Name: "SetMountPoint", Path: dir}, func(*Call) error { return o.api.SetMountPoint(dir, vol) })
}

func (o *observed) DeleteMountPoint(dir string) error {
	return o.call(Call{Name: "DeleteMountPoint", Path: dir}, func(*Call) error { return o.api.DeleteMountPoint(dir) })
}

func (o *observed) Format(vol string, opts FormatOptions) error {
	return o.call(Call{Name: "Format", Path: vol}, func(*Call) error { return o.api.Format(vol, opts) })
}

func (o *observed) UpdateStorageCache() error {
	return o.call(Call{Name: "UpdateStorageCache"}, func(*Call) error { return o.api.UpdateStorageCache() })
}

func (o *observed) NtCreateFile(root Handle, name string, access, objAttr, share, disposition, options uint32) (Handle, error) {
	path := func() string {
		if root == 0 {
			return name
		}
		return o.path(root) + `\` + name
	}
	if !o.wanted() {
		h, err := o.api.NtCreateFile(root, name, access, objAttr, share, disposition, options)
		if err != nil {
			o.pass(Call{Name: "NtCreateFile", Path: path(), Disposition: disposition}, err)
			return h, err
		}
		o.add(h, name) // without that of root, which would be an allocation
		if disposition != FILE_OPEN {
			o.pass(Call{Name: "NtCreateFile", Path: path(), Disposition: disposition}, nil)
		}
		return h, err
	}
	return o.ntCreateFile(path(), root, name, access, objAttr, share, disposition, options)
}

func (o *observed) ntCreateFile(path string, root Handle, name string, access, objAttr, share, disposition, options uint32) (Handle, error) {
	var h Handle // on the heap, because of the closure
	err := o.call(Call{Name: "NtCreateFile", Path: path, Disposition: disposition}, func(c *Call) (err error) {
		h, err = o.api.NtCreateFile(root, name, access, objAttr, share, disposition, options)
		if err == nil {
			c.Handle = h
			o.add(h, path)
		}
		return err
	})
	return h, err
}

func (o *observed) QueryDirectory(h Handle, restart bool, buf []byte) (n int, err error) {
	err = o.call(Call{Name: "QueryDirectory", Handle: h, Path: o.path(h), Out: buf}, func(c *Call) (err error) {
		n, err = o.api.QueryDirectory(h, restart, buf)
		c.N = n
		return err
	})
	return n, err
}

func (o *observed) QueryInformation(h Handle, class uint32, buf []byte) (int, error) {
	if !o.wanted() {
		n, err := o.api.QueryInformation(h, class, buf)
		if err != nil {
			o.pass(Call{Name: "QueryInformation", Path: o.path(h), Code: class}, err)
		}
		return n, err
	}
	var n int // on the heap, because of the closure
	err := o.call(Call{Name: "QueryInformation", Handle: h, Path: o.path(h), Code: class, Out: buf}, func(c *Call) (err error) {
		n, err = o.api.QueryInformation(h, class, buf)
		c.N = n
		return err
	})
	return n, err
}

func (o *observed) SetInformation(h Handle, class uint32, in []byte) error {
	return o.call(Call{Name: "SetInformation", Handle: h, Path: o.path(h), Code: class, In: in}, func(*Call) error {
		return o.api.SetInformation(h, class, in)
	})
}

func (o *observed) QuerySecurity(h Handle, buf []byte) (n int, err error) {
	err = o.call(Call{Name: "QuerySecurity", Handle: h, Path: o.path(h), Out: buf}, func(c *Call) (err error) {
		n, err = o.api.QuerySecurity(h, buf)
		c.N = n
		return err
	})
	return n, err
}

func (o *observed) SetSecurity(h Handle, descriptor []byte) error {
	return o.call(Call{Name: "SetSecurity", Handle: h, Path: o.path(h), In: descriptor}, func(*Call) error {
		return o.api.SetSecurity(h, descriptor)
	})
}

func (o *observed) FinalPath(h Handle, flags uint32) (string, error) {
	if !o.wanted() {
		path, err := o.api.FinalPath(h, flags)
		if err != nil {
			o.pass(Call{Name: "FinalPath", Path: o.path(h), Code: flags}, err)
		}
		return path, err
	}
	var path string // on the heap, because of the closure
	err := o.call(Call{Name: "FinalPath", Handle: h, Path: o.path(h), Code: flags}, func(*Call) (err error) {
		path, err = o.api.FinalPath(h, flags)
		return err
	})
	return path, err
}

func (o *observed) Attributes(path string) (uint32, error) {
	return answer(o, Call{Name: "Attributes", Path: path}, func() (uint32, error) { return o.api.Attributes(path) })
}

func (o *observed) WithPrivilege(privilege string, f func(API) error) error {
	return o.call(Call{Name: "WithPrivilege", Path: privilege}, func(*Call) error {
		return o.api.WithPrivilege(privilege, func(api API) error {
			return f(&observed{api: api, hook: o.hook, wanted: o.wanted, note: o.note, opened: o.opened})
		})
	})
}

func (o *observed) ComputerName(kind uint32) (string, error) {
	return answer(o, Call{Name: "ComputerName", Code: kind}, func() (string, error) { return o.api.ComputerName(kind) })
}

func (o *observed) RegistryText(key, name string) ([]string, error) {
	return answer(o, Call{Name: "RegistryText", Path: key + `\` + name}, func() ([]string, error) { return o.api.RegistryText(key, name) })
}

func (o *observed) WindowsDirectory() (string, error) {
	return answer(o, Call{Name: "WindowsDirectory"}, func() (string, error) { return o.api.WindowsDirectory() })
}
