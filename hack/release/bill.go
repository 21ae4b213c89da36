package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// bill returns the software bill of materials of the programs, as CycloneDX writes it. The
// modules are those that the linker has recorded in the programs.
func (r *release) bill(arch string, modules []*debug.Module) ([]byte, error) {
	b := cdx.NewBOM()
	product := cdx.Component{
		BOMRef: "csi-proxy", Type: cdx.ComponentTypeApplication, Name: "csi-proxy", Version: r.version,
		PackageURL: fmt.Sprintf("pkg:golang/github.com/kubernetes-csi/csi-proxy/v2@%s?goos=windows&goarch=%s", r.version, arch),
	}
	b.Metadata = &cdx.Metadata{Timestamp: r.time.Format(time.RFC3339), Component: &product}
	var components []cdx.Component
	var needed []string
	for _, m := range modules {
		c := cdx.Component{
			BOMRef: m.Path + "@" + m.Version, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version,
			PackageURL: "pkg:golang/" + m.Path + "@" + m.Version, Scope: cdx.ScopeRequired,
		}
		if sum, ok := strings.CutPrefix(m.Sum, "h1:"); ok {
			hash, err := base64.StdEncoding.DecodeString(sum)
			if err != nil {
				return nil, fmt.Errorf("checksum of module %s: %w", m.Path, err)
			}
			// The same value that is in go.sum: a SHA-256 over the names and SHA-256s of
			// the module's files (golang.org/x/mod/sumdb/dirhash).
			c.Properties = &[]cdx.Property{{Name: "go:h1", Value: m.Sum}}
			c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(hash)}}
		}
		components = append(components, c)
		needed = append(needed, c.BOMRef)
	}
	b.Components = &components
	b.Dependencies = &[]cdx.Dependency{{Ref: product.BOMRef, Dependencies: &needed}}
	var text bytes.Buffer
	if err := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(b, cdx.SpecVersion1_6); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}
