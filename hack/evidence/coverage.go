package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/v2/test/published/script"
)

// method is a method of one version.
type method struct{ api, name string }

// coverage has the calls of the published clients.
type coverage struct {
	groups   []group
	sections []script.Section
	modules  map[string][]string // published modules, by the API that they have

	// Numbers of the sections of the group in which a method succeeds, and in which it
	// is called at all.
	answered map[method][]int
	called   map[method][]int
}

// group is an API group and its versions, oldest first.
type group struct {
	name     string
	versions []string
	methods  []string // of all versions, in the order in which they appeared
	has      map[method]bool
}

// readCoverage reads the methods from the descriptors of the API, the calls from the
// script, and the APIs of each published module from its list.
func readCoverage(root string) (*coverage, error) {
	c := &coverage{modules: map[string][]string{}, answered: map[method][]int{}, called: map[method][]int{}}
	published, err := readContract(filepath.Join(root, "client/api/testdata/wire.json"))
	if err != nil {
		return nil, err
	}
	if err := c.readDescriptors(filepath.Join(root, "client/api/descriptors.txtpb"), published); err != nil {
		return nil, err
	}
	if err := c.readModules(filepath.Join(root, "test/published")); err != nil {
		return nil, err
	}
	if c.sections, err = script.Sections(); err != nil {
		return nil, err
	}
	for _, g := range c.groups {
		for n, s := range c.of(g) {
			for _, api := range s.APIs {
				for _, call := range s.Calls(api) {
					m := method{call.API, call.Method}
					if call.API != api {
						continue // help from another group
					}
					c.called[m] = append(c.called[m], n+1)
					if call.Answered {
						c.answered[m] = append(c.answered[m], n+1)
					}
				}
			}
		}
	}
	return c, nil
}

// readContract returns the APIs that were published. Published clients cannot call newer
// ones.
func readContract(file string) (map[string]bool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var contract struct {
		Groups []struct {
			Group    string
			Versions []struct{ Version string }
		}
	}
	if err := json.Unmarshal(text, &contract); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	published := map[string]bool{}
	for _, g := range contract.Groups {
		for _, v := range g.Versions {
			published[g.Group+"/"+v.Version] = true
		}
	}
	return published, nil
}

func (c *coverage) readDescriptors(file string, published map[string]bool) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var files descriptorpb.FileDescriptorSet
	if err := prototext.Unmarshal(text, &files); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	slices.SortStableFunc(files.File, func(a, b *descriptorpb.FileDescriptorProto) int {
		return int(version(a.GetPackage()).Compare(version(b.GetPackage())))
	})
	at := map[string]int{}
	for _, f := range files.File {
		for _, s := range f.Service {
			name := strings.ToLower(s.GetName())
			if !published[name+"/"+f.GetPackage()] {
				continue
			}
			i, ok := at[name]
			if !ok {
				i = len(c.groups)
				at[name] = i
				c.groups = append(c.groups, group{name: name, has: map[method]bool{}})
			}
			g := &c.groups[i]
			g.versions = append(g.versions, f.GetPackage())
			for _, m := range s.Method {
				if !slices.Contains(g.methods, m.GetName()) {
					g.methods = append(g.methods, m.GetName())
				}
				g.has[method{name + "/" + f.GetPackage(), m.GetName()}] = true
			}
		}
	}
	slices.SortFunc(c.groups, func(a, b group) int { return cmp.Compare(a.name, b.name) })
	return nil
}

// version returns the version of a package, or zero for one without a version, which has
// no service.
func version(name string) apiversion.Version {
	v, err := apiversion.NewVersion(name)
	if err != nil {
		return apiversion.Version{}
	}
	return v
}

var listed = regexp.MustCompile(`\{Name: "(\w+/\w+)", New: `)

func (c *coverage) readModules(dir string) error {
	lists, err := filepath.Glob(filepath.Join(dir, "v*", "calls_test.go"))
	if err != nil || len(lists) == 0 {
		return fmt.Errorf("no published module in %s: %v", dir, err)
	}
	for _, l := range lists {
		text, err := os.ReadFile(l)
		if err != nil {
			return err
		}
		apis := listed.FindAllStringSubmatch(string(text), -1)
		if len(apis) == 0 {
			return fmt.Errorf("%s lists no API", l)
		}
		for _, m := range apis {
			c.modules[m[1]] = append(c.modules[m[1]], filepath.Base(filepath.Dir(l)))
		}
	}
	return nil
}

// of returns the sections of a group, in the order of the script.
func (c *coverage) of(g group) []script.Section {
	var own []script.Section
	for _, s := range c.sections {
		if s.File == "calls/"+g.name+".txt" {
			own = append(own, s)
		}
	}
	return own
}

// page returns the page.
func (c *coverage) page() string {
	var b strings.Builder
	b.WriteString(`<!-- Code generated by hack/evidence. DO NOT EDIT. -->

# Which test calls what

The published clients of the existing CSI Proxy call our daemon. They are modules
under [test/published](../../test/published), each a program of its own with the gRPC
of its time. Their calls are in
[test/published/script/calls](../../test/published/script/calls).

A number is a section of that script in which the method succeeds, and its answer is
compared field by field. A number in italics is a section in which it fails, and the
code and text of the error are compared. A dash is a method that the version does not
have; the test "methods of other versions" checks that it is Unimplemented.

In addition, ` + "`TestRequestFieldsReachService`" + ` and
` + "`TestResponseFieldsReachClient`" + ` in internal/wire send a value
through every field of every version, and ` + "`TestEveryPublishedMethodIsServed`" + `
fails on a method without a row.
`)
	for _, g := range c.groups {
		fmt.Fprintf(&b, "\n## %s\n\n", g.name)
		b.WriteString("|")
		for _, v := range g.versions {
			b.WriteString(" | " + v)
		}
		b.WriteString(" |\n|---")
		b.WriteString(strings.Repeat("|:---:", len(g.versions)))
		b.WriteString("|\n| *published in*")
		for _, v := range g.versions {
			b.WriteString(" | " + strings.Join(c.modules[g.name+"/"+v], " "))
		}
		b.WriteString(" |\n")
		for _, name := range g.methods {
			b.WriteString("| " + name)
			for _, v := range g.versions {
				b.WriteString(" | " + c.cell(g, method{g.name + "/" + v, name}))
			}
			b.WriteString(" |\n")
		}
		b.WriteString("\n")
		for i, s := range c.of(g) {
			fmt.Fprintf(&b, "%d. `TestCalls/%s/…/%s`\n", i+1, g.name, s.Title)
		}
	}
	return b.String()
}

func (c *coverage) cell(g group, m method) string {
	if !g.has[m] {
		return "–"
	}
	var parts []string
	for _, n := range slices.Compact(slices.Sorted(slices.Values(c.called[m]))) {
		if slices.Contains(c.answered[m], n) {
			parts = append(parts, fmt.Sprint(n))
		} else {
			parts = append(parts, fmt.Sprintf("*%d*", n))
		}
	}
	return strings.Join(parts, ", ")
}
