package emulated

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32/emulated/journal"
)

// imagePath returns the path of the image of the disk with identity id.
func (n *Node) imagePath(id string) string {
	return filepath.Join(n.store.Dir(), "disk-"+id+".img")
}

// writtenChunk is the size of the chunks for which a node remembers whether it has
// written to an image that it created. Without this, on systems that cannot report
// holes, such as Windows, zeroing a range would mean reading all of it.
const writtenChunk = 1 << 20

// createImage creates the image of a new disk. The file is sparse: a 3 TiB disk
// takes only the space of what is written to it.
func (n *Node) createImage(id string, size uint64) (*os.File, error) {
	f, err := os.OpenFile(n.imagePath(id), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := makeSparse(f); err != nil {
		n.log.Debug("Failed to make a disk image sparse", "image", f.Name(), "err", err)
	}
	f, err = n.useImage(f, id, size)
	if err != nil {
		os.Remove(n.imagePath(id))
		return nil, err
	}
	n.written[id] = map[uint64]struct{}{}
	return f, nil
}

// openImage opens the image of an existing disk. While the disk was detached, other
// programs may have written to the image.
func (n *Node) openImage(id string, size uint64) (*os.File, error) {
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

// checkImage returns an error if the image of a disk is missing, or has less than the
// disk's bytes.
func (n *Node) checkImage(id string, size uint64) error {
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

func (n *Node) useImage(f *os.File, id string, size uint64) (*os.File, error) {
	if err := fitImage(f, size); err != nil {
		f.Close()
		return nil, err
	}
	n.images[id] = f
	return f, nil
}

// fitImage makes f at least size bytes long.
func fitImage(f *os.File, size uint64) error {
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

// applyWrite makes a write of the journal in its image.
func (n *Node) applyWrite(w journal.ImageWrite) error {
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

// readImage fills p with the bytes of f at off. It does not read holes, which are most of
// what a look at a disk covers.
func readImage(f *os.File, p []byte, off int64) (done int, err error) {
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
