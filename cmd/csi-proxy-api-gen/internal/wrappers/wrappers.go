// Package wrappers generates the packages that drivers call. Each version of each
// group has a Client that connects to the version's pipe and has all its methods. The
// package also generates the list of published versions for package negotiate.
package wrappers

import (
	"bytes"
	_ "embed"
	"fmt"
	"go/format"
	"path"
	"strings"
	"text/template"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/csi-proxy-api-gen/internal/apis"
)

// Paths of the output, relative to the root of the repository.
const (
	Dir       = "client/groups"
	Published = "client/negotiate/published_generated.go"
)

//go:embed client.go.tmpl
var clientText string

var clientTemplate = template.Must(template.New("client").Option("missingkey=error").Parse(clientText))

//go:embed published.go.tmpl
var publishedText string

var publishedTemplate = template.Must(template.New("published").Option("missingkey=error").Parse(publishedText))

// client is the input of the template.
type client struct {
	Group   string // "disk"
	Version string // "v1"
	Service string // "Disk"
	API     string // import path of the messages
	Methods []method
}

type method struct {
	Name, Request, Response string
	Doc                     []string // lines
}

// Generate returns <Dir>/<group>/<version>/client_generated.go for every version, and
// Published.
func Generate(set *apis.Set) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, v := range set.Versions() {
		c := client{Group: v.Group.Name, Version: v.Name, Service: v.Group.Service, API: v.ImportPath}
		for i := range v.Service.Methods().Len() {
			m := v.Service.Methods().Get(i)
			c.Methods = append(c.Methods, method{
				Name:     string(m.Name()),
				Request:  string(m.Input().Name()),
				Response: string(m.Output().Name()),
				Doc:      strings.Split(apis.Comment(m), "\n"),
			})
		}
		var b bytes.Buffer
		if err := clientTemplate.Execute(&b, c); err != nil {
			return nil, fmt.Errorf("%s: %w", v, err)
		}
		src, err := format.Source(b.Bytes())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v, err)
		}
		files[path.Join(Dir, v.Dir(), "client_generated.go")] = src
	}
	var b bytes.Buffer
	if err := publishedTemplate.Execute(&b, set.Versions()); err != nil {
		return nil, fmt.Errorf("%s: %w", Published, err)
	}
	src, err := format.Source(b.Bytes())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Published, err)
	}
	files[Published] = src
	return files, nil
}
