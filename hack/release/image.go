package main

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// image writes the layout of an image with one manifest for each architecture.
//
// A HostProcess container runs on the node itself, on any version of Windows Server, if its
// base image is made for that (Kubernetes, "Create a Windows HostProcess Pod"). Such a base
// is Microsoft's to publish, so it comes from a layout of the caller, and none is invented.
func (r *release) image() error {
	bases, err := r.bases()
	if err != nil {
		return err
	}
	index := mutate.IndexMediaType(v1.ImageIndex(empty.Index), types.OCIImageIndex)
	for _, arch := range architectures() {
		layer, err := r.layer(arch)
		if err != nil {
			return err
		}
		image, complete := bases[arch]
		if !complete {
			image = mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
		}
		if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "csi-proxy " + r.version}}); err != nil {
			return err
		}
		config, err := image.ConfigFile()
		if err != nil {
			return err
		}
		config = config.DeepCopy()
		config.OS, config.Architecture, config.Created = "windows", arch, v1.Time{Time: r.time}
		config.Config.Cmd = []string{`csi-proxy.exe`}
		config.Config.Labels = map[string]string{
			"org.opencontainers.image.version": r.version, "org.opencontainers.image.source": "https://github.com/kubernetes-csi/csi-proxy", "org.opencontainers.image.licenses": "Apache-2.0",
		}
		if image, err = mutate.ConfigFile(image, config); err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "windows", Architecture: arch, OSVersion: config.OSVersion}}})
		if complete {
			r.say("image for %s: complete, on the base that -base holds", arch)
		} else {
			r.say("image for %s: INCOMPLETE: it has only the layer of csi-proxy; docs/develop/release.md says how to add a base image", arch)
		}
	}
	path := filepath.Join(r.out, "image")
	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}
	if _, err := layout.Write(path, index); err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	r.say("image: an OCI image layout of the index %s", digest)
	return nil
}

// bases returns the images of the base's layout by architecture, and records their digests.
func (r *release) bases() (map[string]v1.Image, error) {
	if r.base == "" {
		return nil, nil
	}
	index, err := layout.ImageIndexFromPath(r.base)
	if err != nil {
		return nil, fmt.Errorf("%s is no OCI image layout: %w", r.base, err)
	}
	bases := map[string]v1.Image{}
	if err := collect(index, bases); err != nil {
		return nil, fmt.Errorf("%s: %w", r.base, err)
	}
	if len(bases) == 0 {
		return nil, fmt.Errorf("%s has no image for Windows", r.base)
	}
	var record bytes.Buffer
	for _, arch := range architectures() {
		base, ok := bases[arch]
		if !ok {
			continue
		}
		digest, err := base.Digest()
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&record, "%s  windows/%s\n", digest, arch)
		r.say("base image for %s: %s", arch, digest)
	}
	return bases, os.WriteFile(filepath.Join(r.out, "base-images.txt"), record.Bytes(), 0o644)
}

// collect finds the images for Windows below an index.
func collect(index v1.ImageIndex, into map[string]v1.Image) error {
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for _, d := range manifest.Manifests {
		if d.MediaType.IsIndex() {
			below, err := index.ImageIndex(d.Digest)
			if err == nil {
				err = collect(below, into)
			}
			if err != nil {
				return err
			}
			continue
		}
		if !d.MediaType.IsImage() {
			continue
		}
		image, err := index.Image(d.Digest)
		if err != nil {
			return err
		}
		config, err := image.ConfigFile()
		if err != nil {
			return err
		}
		if config.OS != "windows" {
			continue
		}
		if _, twice := into[config.Architecture]; twice {
			return errors.New("more than one image for windows/" + config.Architecture + "; give a layout with one")
		}
		into[config.Architecture] = image
	}
	return nil
}

// layer returns the layer with the programs, in the form of a Windows layer: files are
// below Files, the registry's hives below Hives (microsoft/hcsshim, pkg/ociwclayer).
func (r *release) layer(arch string) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	security := map[string]string{"MSWINDOWS.rawsd": base64.StdEncoding.EncodeToString(ownedByAdministrators())}
	for _, dir := range []string{"Files", "Hives"} {
		h := &tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755, ModTime: r.time, Format: tar.FormatPAX, PAXRecords: security}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
	}
	for _, name := range imagePrograms() {
		content, err := os.ReadFile(r.program(arch, name))
		if err != nil {
			return nil, err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: "Files/" + name, Size: int64(len(content)), Mode: 0o755, ModTime: r.time, Format: tar.FormatPAX, PAXRecords: security}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}

// ownedByAdministrators returns the self-relative security descriptor O:BAG:BA ([MS-DTYP]
// 2.4.6). Without an access control list of its own, a file inherits that of its directory.
func ownedByAdministrators() []byte {
	sid := binary.LittleEndian.AppendUint32([]byte{1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0}, 544) // S-1-5-32-544
	const header, selfRelative = 20, 0x8000
	d := []byte{1, 0}
	d = binary.LittleEndian.AppendUint16(d, selfRelative)
	for _, offset := range []uint32{header, header + uint32(len(sid)), 0, 0} { // owner, group, SACL, DACL
		d = binary.LittleEndian.AppendUint32(d, offset)
	}
	return append(append(d, sid...), sid...)
}
