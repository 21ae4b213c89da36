package apiserver

import (
	"strings"
	"unicode"

	"google.golang.org/grpc"

	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
)

// changes says for each verb that begins the name of a method of the API whether such
// methods change the node: its disks, volumes, files, mappings, sessions or services, or
// what Windows knows about them. Such methods are audited, and refused with
// [Config.ReadOnly]. The full name of a method takes precedence.
var changes = map[string]bool{
	"Get":  false,
	"Is":   false,
	"List": false,

	"DiskStats":   false, // published names of GetDiskStats and GetVolumeStats
	"VolumeStats": false,
	"PathExists":  false,

	"Add":        true,
	"Connect":    true,
	"Create":     true,
	"Disconnect": true,
	"Discover":   true, // the initiator keeps the targets that it finds
	"Dismount":   true,
	"Format":     true,
	"Link":       true,
	"Mkdir":      true,
	"Mount":      true,
	"New":        true,
	"Partition":  true,
	"Remove":     true,
	"Rescan":     true, // disks that arrived can be used from then on
	"Resize":     true,
	"Rmdir":      true,
	"Set":        true,
	"Start":      true,
	"Stop":       true,
	"Unmount":    true,
	"Write":      true,
}

// Changes reports whether a method of the API changes the node. It is true for a method
// that the table does not have.
func Changes(method string) bool {
	key := keyOf(method)
	return key == "" || changes[key]
}

// keyOf returns the key of a method in changes, or "".
func keyOf(method string) string {
	verb := method
	if second := strings.IndexFunc(method[min(1, len(method)):], unicode.IsUpper); second >= 0 {
		verb = method[:second+1]
	}
	for _, key := range []string{method, verb} {
		if _, ok := changes[key]; ok {
			return key
		}
	}
	return ""
}

// change is a method that changes the node, on the pipe on which it is called.
type change struct {
	pipe    string
	method  string
	refused *logLimiter // of audit lines about refused requests of the pipe
}

// changesOf adds the methods of a pipe that change the node, by full name.
func (s *Server) changesOf(p Pipe) {
	refused := &logLimiter{most: maxFailureLines}
	for _, m := range p.Desc.Methods {
		if p.Changes != nil && p.Changes(m.MethodName) {
			s.changes["/"+p.Desc.ServiceName+"/"+m.MethodName] = change{p.Name, m.MethodName, refused}
		}
	}
}

// allow refuses methods that change the node if the server is read-only.
func (s *Server) allow(info *grpc.UnaryServerInfo) error {
	if !s.config.ReadOnly {
		return nil
	}
	c, ok := s.changes[info.FullMethod]
	if !ok {
		return nil
	}
	return hosterr.WithHint("call", c.method,
		hosterr.Text(hosterr.ErrPermissionDenied, "csi-proxy was started with -read-only-api, and this method changes the node"),
		"start csi-proxy without -read-only-api, or call only methods that read")
}
