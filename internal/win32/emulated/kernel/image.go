package kernel

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/journal"
)

// Image returns the open image of an attached disk, or nil.
func (n *Kernel) Image(id string) *os.File { return n.images[id] }

// CloseImage closes the image of a disk that is not attached any more.
func (n *Kernel) CloseImage(id string) error {
	f := n.images[id]
	delete(n.images, id)
	delete(n.written, id)
	return f.Close()
}

// RemoveImage deletes the image of a disk.
func (n *Kernel) RemoveImage(id string) error { return os.Remove(n.imagePath(id)) }

// imagePath returns the path of the image of the disk with identity id.
func (n *Kernel) imagePath(id string) string {
	return filepath.Join(n.Store.Dir(), "disk-"+id+".img")
}

// writtenChunk is the size of the chunks for which a node remembers whether it has
// written to an image that it created. Without this, on systems that cannot report
// holes, such as Windows, zeroing a range would mean reading all of it.
const writtenChunk = 1 << 20

// CreateImage creates the image of a new disk. The file is sparse: a 3 TiB disk
// takes only the space of what is written to it.
func (n *Kernel) CreateImage(id string, size uint64) (*os.File, error) {
	f, err := os.OpenFile(n.imagePath(id), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := makeSparse(f); err != nil {
		n.Log.Debug("Failed to make a disk image sparse", "image", f.Name(), "err", err)
	}
	f, err = n.useImage(f, id, size)
	if err != nil {
		os.Remove(n.imagePath(id))
		return nil, err
	}
	n.written[id] = map[uint64]struct{}{}
	return f, nil
}

// OpenImage opens the image of an existing disk. While the disk was detached, other
// programs may have written to the image.
func (n *Kernel) OpenImage(id string, size uint64) (*os.File, error) {
	delete(n.written, id)
	f, err := os.OpenFile(n.imagePath(id), os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := cutImage(f, size); err != nil {
		f.Close()
		return nil, err
	}
	return n.useImage(f, id, size)
}

// CheckImage returns an error if the image of a disk is missing, or has less than the
// disk's bytes.
func (n *Kernel) CheckImage(id string, size uint64) error {
	path := n.imagePath(id)
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("the image of disk %s: %w", id, err)
	}
	if uint64(info.Size()) < size {
		return fmt.Errorf("the image of disk %s, %s, has %d bytes, want %d: it was cut off; restore it", id, path, info.Size(), size)
	}
	return nil
}

// cutImage removes what a process that was killed while growing a disk had added to
// the file but not yet recorded in the journal. Nothing was written there.
func cutImage(f *os.File, size uint64) error {
	info, err := f.Stat()
	if err != nil || uint64(info.Size()) <= size {
		return err
	}
	return f.Truncate(int64(size))
}

func (n *Kernel) useImage(f *os.File, id string, size uint64) (*os.File, error) {
	if err := FitImage(f, size); err != nil {
		f.Close()
		return nil, err
	}
	n.images[id] = f
	return f, nil
}

// FitImage makes f at least size bytes long.
func FitImage(f *os.File, size uint64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if uint64(info.Size()) >= size {
		return nil
	}
	if err := f.Truncate(int64(size)); err != nil {
		return fmt.Errorf("%s: extend to %d bytes: %w", f.Name(), size, err)
	}
	return nil
}

// ApplyWrite makes a write of the journal in its image.
func (n *Kernel) ApplyWrite(w journal.ImageWrite) error {
	f := n.images[w.Disk]
	if f == nil {
		return nil // the disk has been discarded
	}
	chunks, known := n.written[w.Disk]
	switch {
	case w.Data != nil && known:
		for c := w.Offset / writtenChunk; c*writtenChunk < w.Offset+uint64(len(w.Data)); c++ {
			chunks[c] = struct{}{}
		}
	case w.Data == nil && known:
		for c := range chunks {
			from, end := max(c*writtenChunk, w.Offset), min((c+1)*writtenChunk, w.Offset+w.Length)
			if from >= end {
				continue
			}
			if err := zeroRange(f, from, end-from); err != nil {
				return err
			}
		}
		return nil
	case w.Data == nil:
		return zeroRange(f, w.Offset, w.Length)
	}
	_, err := f.WriteAt(w.Data, int64(w.Offset))
	return err
}

// ReadImage fills p with the bytes of f at off. It does not read holes, which are most of
// what a look at a disk covers.
func ReadImage(f *os.File, p []byte, off int64) (done int, err error) {
	const chunk = 64 << 10
	for done < len(p) {
		from := off + int64(done)
		at, err := nextData(f, uint64(from))
		if err != nil {
			return done, err
		}
		hole := int(min(at-uint64(from), uint64(len(p)-done)))
		clear(p[done : done+hole])
		done += hole
		n, err := f.ReadAt(p[done:min(done+chunk, len(p))], off+int64(done))
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// zeroRange makes length bytes at off read as zeros. It writes only where they do not
// already, so that holes stay holes.
func zeroRange(f *os.File, off, length uint64) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	end := min(off+length, uint64(info.Size()))
	buf := make([]byte, len(zeros))
	for off < end {
		at, err := nextData(f, off)
		if err != nil {
			return err
		}
		if at >= end {
			return nil
		}
		off = at
		chunk := buf[:min(uint64(len(buf)), end-off)]
		if _, err := f.ReadAt(chunk, int64(off)); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if !allZero(chunk) {
			if _, err := f.WriteAt(zeros[:len(chunk)], int64(off)); err != nil {
				return err
			}
		}
		off += uint64(len(chunk))
	}
	return nil
}

// RemoveImages removes the images in the state directory that belong to no known
// disk.
func (n *Kernel) RemoveImages(known func(id string) bool) error {
	names, err := filepath.Glob(n.imagePath("*"))
	if err != nil {
		return err
	}
	for _, name := range names {
		id := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), "disk-"), ".img")
		if known(id) {
			continue
		}
		if err := os.Remove(name); err != nil {
			return err
		}
	}
	return nil
}

// FillImage copies the file at path to the image of a new disk.
func (n *Kernel) FillImage(id, path string) error {
	delete(n.written, id)
	return CopyImage(n.images[id], path)
}

// CopyImage copies the file at path to image. Zeros stay holes.
func CopyImage(image *os.File, path string) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	buf := make([]byte, 1<<20)
	for off := uint64(0); off < uint64(info.Size()); {
		at, err := nextData(from, off)
		if err != nil {
			return err
		}
		if at >= uint64(info.Size()) {
			break
		}
		off = at
		size, err := from.ReadAt(buf, int64(off))
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if size == 0 {
			break
		}
		if !allZero(buf[:size]) {
			if _, err := image.WriteAt(buf[:size], int64(off)); err != nil {
				return err
			}
		}
		off += uint64(size)
	}
	return nil
}
