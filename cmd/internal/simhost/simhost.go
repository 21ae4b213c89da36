// Package simhost is the host of csi-proxy-sim: a simulated node in this process, and the
// pipe of its control service.
package simhost

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kubernetes-csi/csi-proxy/v2/cmd/internal/daemon"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/apiserver/serve"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/simcontrol/server"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/rules"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/simnode"
)

// Program returns the program csi-proxy-sim.
func Program(version string) daemon.Program {
	return daemon.Program{Name: "csi-proxy-sim", Version: version, Host: &host{}}
}

type host struct{ nodeConfig, stateDir string }

func (*host) Name() string { return "simulated" }

func (h *host) AddFlags(f *flag.FlagSet) {
	f.StringVar(&h.nodeConfig, "node-config", "", "YAML `file` that describes the simulated node; ignored if the state directory contains a node")
	f.StringVar(&h.stateDir, "state-dir", "", "`directory` that stores the simulated node; default: the node is lost when the process ends")
}

func (h *host) Open(r rules.Rules, _ *win32.Counts) (*daemon.Node, error) {
	config, err := nodeConfig(h.nodeConfig)
	if err != nil {
		return nil, err
	}
	if h.stateDir != "" {
		config.StateDir = h.stateDir
	}
	config.Rules = r
	n, err := simnode.Open(config)
	if err != nil {
		return nil, err
	}
	return &daemon.Node{
		Groups: wire.Groups{Disk: n.Disk(), Filesystem: n.Filesystem(), ISCSI: n.ISCSI(), SMB: n.SMB(), System: n.System(), Volume: n.Volume()},
		Pipes:  []serve.Pipe{{Name: simcontrol.Pipe, Desc: &simcontrol.Node_ServiceDesc, Impl: server.New(n)}},
		Close:  n.Close,
	}, nil
}

// nodeConfig reads the description of the simulated node from a file.
func nodeConfig(file string) (simnode.Config, error) {
	var config simnode.Config
	if file == "" {
		return config, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return config, fmt.Errorf("-node-config: %w", err)
	}
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		return config, fmt.Errorf("-node-config %s: %s%s", file, lines(string(text), err), reason(err))
	}
	return config, nil
}

// unknownField matches the YAML library's error for an unknown field, which does not
// contain the line.
var unknownField = regexp.MustCompile(`unknown field "([^"]+)"`)

// reason returns the text of the YAML library's error without what it says of JSON, into
// which it converts the file.
func reason(err error) string {
	text := err.Error()
	for _, prefix := range []string{"error converting YAML to JSON: ", "error unmarshaling JSON: ", "while decoding JSON: ", "json: ", "yaml: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return text
}

// lines returns the lines of text that contain the unknown field of err, as the start of
// an error text. It is empty for other errors. There may be several lines, if the field is
// valid elsewhere.
func lines(text string, err error) string {
	name := unknownField.FindStringSubmatch(err.Error())
	if name == nil {
		return ""
	}
	field, bad := regexp.Compile(`(^|[\s{,"'])` + regexp.QuoteMeta(name[1]) + `["']?\s*:`)
	if bad != nil { // invalid UTF-8
		return ""
	}
	var found []string
	n := 0
	for line := range strings.Lines(text) {
		n++
		if code, _, _ := strings.Cut(line, "#"); field.MatchString(code) {
			found = append(found, strconv.Itoa(n))
		}
	}
	if found == nil {
		return ""
	}
	return "line " + strings.Join(found, " or ") + ": "
}
