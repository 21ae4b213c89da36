package kernel

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Image returns the open image of an attached disk, or nil.
func (n *Kernel) Image(id string) *os.File { return n.images[id] }

// CloseImage closes the image of a disk that is not attached any more.
func (n *Kernel) CloseImage(id string) error {
	f := n.images[id]
	delete(n.images, id)
	return f.Close()
}

// RemoveImage deletes the image of a disk.
func (n *Kernel) RemoveImage(id string) error { return os.Remove(n.imagePath(id)) }

// imagePath returns the path of the image of the disk with identity id.
func (n *Kernel) imagePath(id string) string {
	return filepath.Join(n.Store.Dir(), "disk-"+id+".img")
}

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
	if f, err = n.useImage(f, id, size); err != nil {
		os.Remove(n.imagePath(id))
	}
	return f, err
}

// OpenImage opens the image of an existing disk. While the disk was detached, other
// programs may have written to the image.
func (n *Kernel) OpenImage(id string, size uint64) (*os.File, error) {
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

// imageWrite is a write of a call to the image of a disk: data, or zeros if that is nil.
type imageWrite struct {
	disk        string
	off, length uint64
	data        []byte
}

// writeImage makes a write. It writes zeros only where there are others, so that holes stay holes.
func (n *Kernel) writeImage(w imageWrite) error {
	f := n.images[w.disk]
	if w.data != nil {
		_, err := f.WriteAt(w.data, int64(w.off))
		return err
	}
	for off, end := w.off, w.off+w.length; off < end; {
		chunk := make([]byte, min(uint64(len(zeros)), end-off))
		if _, err := f.ReadAt(chunk, int64(off)); err != nil {
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
