// Package sparse reads the sparse files of simulated disks for tests.
package sparse

import (
	"errors"
	"io"
	"os"
)

// Blocks calls do for the blocks of a sparse file that are not zero, in order, and returns the size
// of the file. do must not keep b.
func Blocks(file string, block int, do func(at int64, b []byte) error) (size int64, err error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	buf, zeros := make([]byte, 64*block), make([]byte, block)
	for at := int64(0); at < info.Size(); {
		const seekData = 3 // of Linux: to the next byte that is not in a hole
		next, err := f.Seek(at, seekData)
		if err != nil {
			break // only a hole follows
		}
		at = next / int64(block) * int64(block)
		n, err := f.ReadAt(buf, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for b := buf[:n]; len(b) > 0; {
			one := b[:min(block, len(b))]
			if string(one) != string(zeros[:len(one)]) {
				if err := do(at, one); err != nil {
					return 0, err
				}
			}
			at, b = at+int64(len(one)), b[len(one):]
		}
	}
	return info.Size(), nil
}
