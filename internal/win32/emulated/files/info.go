package files

import (
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/kernel"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/volume"
)

// sizeofBasic is sizeof(FILE_BASIC_INFORMATION): four times, attributes, padding.
const (
	sizeofBasic     = 40
	basicAttributes = 32
)

// QueryInformation implements [win32.Files].
//
// Source: specification, [MS-FSA] 2.1.5.12; document, NtQueryInformationFile.
func (n *Namespace) QueryInformation(h win32.Handle, class uint32, buf []byte) (size int, err error) {
	err = n.Do(func(*kernel.Tx) error {
		f, err := n.file(h)
		if err != nil {
			return err
		}
		size, err = f.queryInformation(class, buf)
		return err
	})
	return size, err
}

// queryInformation follows [MS-FSA] 2.1.5.12 for each class. Other classes fail
// with STATUS_INVALID_INFO_CLASS, a short buffer with
// STATUS_INFO_LENGTH_MISMATCH. Attributes need FILE_READ_ATTRIBUTES. Times are
// not emulated; they are zero.
//
// Source: specification, [MS-FSA] 2.1.5.12.
func (f *file) queryInformation(class uint32, buf []byte) (int, error) {
	e := f.open.Entry()
	var out []byte
	right := uint32(0)
	switch class {
	case win32.FileBasicInformation:
		out, right = make([]byte, sizeofBasic), win32.FILE_READ_ATTRIBUTES
		le.PutUint32(out[basicAttributes:], e.Attributes())
	case win32.FileAttributeTagInformation:
		out, right = win32.AttributeTag{Attributes: e.Attributes(), ReparseTag: e.ReparseTag()}.Encode(), win32.FILE_READ_ATTRIBUTES
	case win32.FileStandardInformation:
		s := win32.FileStandard{EndOfFile: e.Size(), Links: 1, DeletePending: e.DeletePending(), Directory: e.IsDir()}
		if s.DeletePending {
			s.Links = 0 // a deleted link does not count ([MS-FSA] 2.1.5.12.27)
		}
		out = s.Encode()
	default:
		return 0, win32.STATUS_INVALID_INFO_CLASS
	}
	if len(buf) < len(out) {
		return 0, win32.STATUS_INFO_LENGTH_MISMATCH
	}
	if err := f.check(right); err != nil {
		return 0, err
	}
	return copy(buf, out), nil
}

// QuerySecurity implements [win32.Files] for the access control lists of root directories.
//
// Source: specification, [MS-FSA] 2.1.5.14; document, NtQuerySecurityObject.
func (n *Namespace) QuerySecurity(h win32.Handle, buf []byte) (size int, err error) {
	err = n.Do(func(t *kernel.Tx) error {
		f, err := n.file(h)
		if err != nil {
			return err
		}
		if f.open.Entry() != f.tree.Root() {
			return win32.STATUS_NOT_IMPLEMENTED // Source: node, it keeps lists of roots only
		}
		if err := f.check(win32.READ_CONTROL); err != nil {
			return err
		}
		list := volume.RootSecurity(f.open.Entry())
		if size = len(list); size > len(buf) {
			return win32.STATUS_BUFFER_TOO_SMALL // Source: document, NtQuerySecurityObject
		}
		copy(buf, list)
		return nil
	})
	return size, err
}

// SetSecurity implements [win32.Files] for access control lists. The list that a root
// directory got can be seen with Show; no other call on this node asks it, because the
// node's services run as LocalSystem.
//
// Source: specification, [MS-FSA] 2.1.5.17; document, NtSetSecurityObject.
func (n *Namespace) SetSecurity(h win32.Handle, descriptor []byte) error {
	return n.Do(func(t *kernel.Tx) error {
		f, err := n.file(h)
		if err != nil {
			return err
		}
		if _, err := win32.DecodeDACL(descriptor); err != nil {
			return win32.STATUS_INVALID_SECURITY_DESCR // Source: document, NtSetSecurityObject
		}
		if err := f.check(win32.WRITE_DAC); err != nil {
			return err
		}
		if f.vol.Writable() != nil {
			return win32.STATUS_MEDIA_WRITE_PROTECTED // Source: specification, [MS-FSA] 2.1.5.17
		}
		f.tree.SetSecurity(f.vol.Changes(t), f.open.Entry(), descriptor)
		return nil
	})
}

// SetInformation implements [win32.Files].
//
// Source: specification, [MS-FSA] 2.1.5.15; document, NtSetInformationFile. Go's os.RemoveAll
// relies on the flags of FileDispositionInformationEx.
func (n *Namespace) SetInformation(h win32.Handle, class uint32, in []byte) error {
	return n.Do(func(t *kernel.Tx) error {
		f, err := n.file(h)
		if err != nil {
			return err
		}
		return f.setInformation(t, class, in)
	})
}

// setInformation follows [MS-FSA] 2.1.5.15 for each class. An unknown class fails
// with STATUS_INVALID_INFO_CLASS, a short buffer with
// STATUS_INFO_LENGTH_MISMATCH. For the other errors see the methods of
// [filetree.Tree].
//
// Source: specification, [MS-FSA] 2.1.5.15.
func (f *file) setInformation(t *kernel.Tx, class uint32, in []byte) error {
	want, right := 0, uint32(win32.DELETE)
	switch class {
	case win32.FileBasicInformation:
		want, right = sizeofBasic, win32.FILE_WRITE_ATTRIBUTES
	case win32.FileDispositionInformation:
		want = 1
	case win32.FileDispositionInformationEx:
		want = 4
	default:
		return win32.STATUS_INVALID_INFO_CLASS
	}
	if len(in) < want {
		return win32.STATUS_INFO_LENGTH_MISMATCH
	}
	if err := f.check(right); err != nil {
		return err
	}
	if f.vol.Writable() != nil {
		return win32.STATUS_MEDIA_WRITE_PROTECTED
	}
	switch class {
	case win32.FileBasicInformation:
		for at := 0; at < basicAttributes; at += 8 {
			if int64(le.Uint64(in[at:])) < -2 { // -1 and -2 stop and resume the updates of a time
				return win32.STATUS_INVALID_PARAMETER
			}
		}
		attributes := le.Uint32(in[basicAttributes:])
		if attributes == 0 {
			return nil // 0 leaves them unchanged
		}
		return f.tree.SetAttributes(f.vol.Changes(t), f.open.Entry(), attributes)
	case win32.FileDispositionInformation:
		flags := uint32(0)
		if in[0] != 0 {
			flags = win32.FILE_DISPOSITION_DELETE
		}
		return f.dispose(t, flags)
	default: // FileDispositionInformationEx
		return f.dispose(t, le.Uint32(in))
	}
}
