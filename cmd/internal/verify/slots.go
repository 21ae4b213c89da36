package verify

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/storage"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/conformance"
)

// attributesOfASlot asks what of the attributes of a disk the next one at its address has. It first
// sees that there is a next one: what Windows remembers for an address can be taken back only there.
func attributesOfASlot(p *place) string {
	const both = win32.DISK_ATTRIBUTE_OFFLINE | win32.DISK_ATTRIBUTE_READ_ONLY
	const moved = "not known, it got another address"
	number := p.attach(conformance.Disk{Size: gib})
	at := p.address(number)
	next := func() (same bool) {
		_, err := p.Detach(number)
		p.need(err)
		number = p.attach(conformance.Disk{Size: gib})
		return p.address(number) == at
	}
	if !next() {
		return moved
	}
	after := func(remembered bool) string {
		p.onDisk(number, func(ctx context.Context, d *storage.Disk) error {
			return errors.Join(d.SetAttributes(ctx, 0, both, storage.Remembered), d.SetAttributes(ctx, both, both, remembered))
		})
		if !next() {
			return moved
		}
		var attributes uint64
		p.onDisk(number, func(ctx context.Context, d *storage.Disk) (err error) {
			attributes, err = d.Attributes(ctx)
			return errors.Join(err, d.SetAttributes(ctx, 0, both, storage.Remembered)) // the slot is given back
		})
		switch attributes {
		case both:
			return "both"
		case 0:
			return "none"
		}
		return fmt.Sprintf("%#x", attributes)
	}
	with := after(storage.Remembered)
	if with == moved {
		return moved
	}
	return "with Persist " + with + ", without " + after(storage.Passing)
}

// address returns the address of a disk.
func (p *place) address(number uint32) (at win32.SCSIAddress) {
	p.onDisk(number, func(ctx context.Context, d *storage.Disk) (err error) {
		at, err = d.SCSIAddress(ctx)
		return err
	})
	return at
}

// tableUnderAVolume writes the partition table below an open directory, as the growth of a
// partition does.
func tableUnderAVolume(p *place) string {
	number, id := p.data(conformance.Disk{})
	target := p.directory("target")
	p.need(p.node.API.SetMountPoint(target+`\`, id))
	p.Cleanup(func() {
		if err := p.node.API.DeleteMountPoint(target + `\`); err != nil {
			p.Error(err)
		}
	})
	open := func() win32.Handle {
		h, err := p.node.API.NtCreateFile(0, `\??\`+target+`\`, win32.FILE_READ_ATTRIBUTES|win32.SYNCHRONIZE, 0,
			win32.FILE_SHARE_READ|win32.FILE_SHARE_WRITE, win32.FILE_OPEN, win32.FILE_DIRECTORY_FILE|win32.FILE_SYNCHRONOUS_IO_NONALERT)
		p.need(err)
		return h
	}
	write := func(rewrite bool) string {
		h := open()
		defer p.node.API.CloseHandle(h)
		p.onDisk(number, func(ctx context.Context, d *storage.Disk) error {
			l, err := d.Layout(ctx)
			if err != nil {
				return err
			}
			for i := range l.Partitions {
				l.Partitions[i].Rewrite = rewrite
			}
			return errors.Join(d.SetLayout(ctx, l), d.UpdateProperties(ctx))
		})
		if _, err := p.node.API.QueryInformation(h, win32.FileBasicInformation, make([]byte, 64)); err != nil {
			return "the open directory fails: " + err.Error()
		}
		now, err := p.node.API.VolumeNameForMountPoint(target + `\`)
		switch {
		case err != nil:
			return "the folder fails: " + err.Error()
		case !strings.EqualFold(now, id):
			return "the volume has another name"
		}
		return "yes"
	}
	return write(false) + "; with its entry rewritten " + write(true)
}

// logonBesideAMapping asks the server about credentials while one of its shares is mapped.
func logonBesideAMapping(p *place) string {
	s := p.mapShare()
	defer func() {
		if err := p.node.API.UseDel(s.remote); err != nil {
			p.Error(err)
		}
	}()
	server, _, _ := strings.Cut(strings.TrimPrefix(s.remote, `\\`), `\`)
	var answers []string
	for _, domain := range []string{s.domain, ""} {
		for _, password := range []string{s.password, "wrong"} {
			answer := "accepted"
			if err := p.node.API.LogonToServer(server, win32.Credentials{User: s.user, Domain: domain, Password: win32.NewSecret(password)}); err != nil {
				answer = "refused"
				if code, ok := win32.Code(err); ok {
					answer = fmt.Sprintf("refused with %d", uint32(code))
				}
			}
			what := "right"
			if password == "wrong" {
				what = "wrong"
			}
			answers = append(answers, what+" "+answer)
		}
	}
	return "with a domain: " + strings.Join(answers[:2], ", ") + "; without: " + strings.Join(answers[2:], ", ")
}
