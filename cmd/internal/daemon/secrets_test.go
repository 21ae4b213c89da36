package daemon_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/kubernetes-csi/csi-proxy/client"
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/client/transport"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/win32"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire/wiretest"
)

// Passwords and CHAP secrets of requests must not appear in the log at the highest
// verbosity, in errors, responses, the state directory or the metrics. The test calls every
// method of every version with a marked secret in each secret field. It does so twice,
// because the results of the first calls exist in the second.
func TestSecretsAreNotWritten(t *testing.T) {
	sockets(t)
	const secret = "Geheim-4711-xyz" // of a length that is valid for CHAP
	state, config := t.TempDir(), filepath.Join(t.TempDir(), "node.yaml")
	// The servers accept the secret, so the requests succeed.
	err := os.WriteFile(config, []byte(`
smbServers: [{name: nas, shares: [data], accounts: [{user: alice, password: `+secret+`}]}]
iscsi: {targets: [{iqn: "iqn.2025-01.com.example:data", portals: [192.0.2.10], luns: [{disk: {size: 1GiB}}], chap: {user: alice, secret: `+secret+`}}]}
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, "-v=10", "-node-config="+config, "-state-dir="+state, "-metrics-bind-address=127.0.0.1:0")
	p.await(t, "Serving ")

	var answers bytes.Buffer
	methods, secrets := 0, 0
	succeeded := map[string]int{}
	for range 2 {
		for _, s := range publishedServices(t) {
			version := string(s.ParentFile().Package())
			conn, err := transport.Connect(client.PipePath(strings.ToLower(string(s.Name())), apiversion.NewVersionOrPanic(version)))
			if err != nil {
				t.Fatal(err)
			}
			for i := range s.Methods().Len() {
				m := s.Methods().Get(i)
				in := dynamicpb.NewMessage(m.Input())
				secrets += fill(in, m, secret)
				methods++
				ctx, cancel := context.WithTimeout(t.Context(), longLimit)
				out := dynamicpb.NewMessage(m.Output())
				err := conn.Invoke(ctx, fmt.Sprintf("/%s/%s", s.FullName(), m.Name()), in, out)
				cancel()
				if err == nil {
					succeeded[string(m.Name())]++
				}
				fmt.Fprintln(&answers, err, status.Convert(err).Details(), prototext.Format(out))
			}
			conn.Close()
		}
	}
	for _, done := range []string{"NewSmbGlobalMapping", "UpdateSmbGlobalMapping", "ConnectTarget", "SetMutualChapSecret"} {
		if succeeded[done] == 0 {
			t.Errorf("%s never succeeded, so its secret was not used", done)
		}
	}
	if want := 2 * len(publishedMethods(t)); methods != want || secrets < 2*9 {
		t.Fatalf("called %d methods with %d secrets, want %d and at least 18", methods, secrets, want)
	}
	metrics := scrape(t, p)
	p.cmd.Process.Signal(syscall.SIGTERM)
	if code := p.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	log, _ := p.output() // complete, because the daemon has ended
	if n := strings.Count(log, "NewSmbGlobalMapping"); n < 8 {
		t.Fatalf("the log contains NewSmbGlobalMapping %d times, so it does not contain all requests:\n%s", n, log)
	}
	for _, call := range []string{"UseAdd", "LoginIScsiTarget"} { // the trace of -v=6
		if !strings.Contains(log, `"Called Win32" call="`+call+`"`) {
			t.Errorf("the log has no Win32 call %s, so its secret was not used", call)
		}
	}

	wantNoSecret(t, "the log", []byte(log), secret)
	wantNoSecret(t, "an answer or error", answers.Bytes(), secret)
	if !strings.Contains(metrics, `grpc_server_handled_total{grpc_code="OK",grpc_method="ConnectTarget",`) {
		t.Errorf("the metrics do not count ConnectTarget:\n%s", metrics)
	}
	wantNoSecret(t, "the metrics", []byte(metrics), secret)
	for _, name := range []string{"kubelet", "nas", "alice", "iqn.", "192.0.2.", "Volume{", "MSiSCSI"} {
		if strings.Contains(metrics, name) {
			t.Errorf("the metrics, which need no authentication, contain %q:\n%s", name, metrics)
		}
	}
	files := 0
	err = filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".img") { // images are sparse and contain no text
			return err
		}
		b, err := os.ReadFile(path)
		files++
		wantNoSecret(t, path, b, secret)
		return err
	})
	if err != nil || files == 0 {
		t.Fatalf("read %d files of the state directory: %v", files, err)
	}
}

// connectTo connects to the pipe of a service. The caller closes the connection.
func connectTo(t *testing.T, s protoreflect.ServiceDescriptor) *grpc.ClientConn {
	t.Helper()
	conn, err := transport.Connect(client.PipePath(strings.ToLower(string(s.Name())), apiversion.NewVersionOrPanic(string(s.ParentFile().Package()))))
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// publishedServices returns the services of all versions. System comes first, because its
// StartService enables iSCSI.
func publishedServices(t *testing.T) []protoreflect.ServiceDescriptor {
	t.Helper()
	var services []protoreflect.ServiceDescriptor
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		if apiversion.IsValidVersion(string(f.Package())) {
			for i := range f.Services().Len() {
				services = append(services, f.Services().Get(i))
			}
		}
		return true
	})
	if want := len(wire.Services(wiretest.Groups(nil))); len(services) != want {
		t.Fatalf("%d services are linked, want the %d that are served", len(services), want)
	}
	slices.SortFunc(services, func(a, b protoreflect.ServiceDescriptor) int {
		rank := func(s protoreflect.ServiceDescriptor) string {
			if s.Name() == "System" {
				return ""
			}
			return string(s.FullName())
		}
		return strings.Compare(rank(a), rank(b))
	})
	return services
}

// publishedMethods returns the methods of all versions.
func publishedMethods(t *testing.T) []protoreflect.MethodDescriptor {
	t.Helper()
	var methods []protoreflect.MethodDescriptor
	for _, s := range publishedServices(t) {
		for i := range s.Methods().Len() {
			methods = append(methods, s.Methods().Get(i))
		}
	}
	return methods
}

// fill sets the fields of a message to valid values, and returns the number of secrets.
func fill(in protoreflect.Message, m protoreflect.MethodDescriptor, secret string) (secrets int) {
	for i := range in.Descriptor().Fields().Len() {
		f := in.Descriptor().Fields().Get(i)
		name := strings.ToLower(string(f.Name()))
		switch {
		case f.Kind() == protoreflect.MessageKind:
			secrets += fill(in.Mutable(f).Message(), m, secret)
		case strings.Contains(name, "password"), strings.Contains(name, "secret"):
			in.Set(f, protoreflect.ValueOfString(secret))
			secrets++
		case f.Kind() == protoreflect.EnumKind:
			in.Set(f, protoreflect.ValueOfEnum(1)) // CHAP, for the type of authentication
		case f.IsList(): // of texts
			in.Mutable(f).List().Append(protoreflect.ValueOfString(text(name, m)))
		case f.Kind() == protoreflect.StringKind:
			in.Set(f, protoreflect.ValueOfString(text(name, m)))
		}
	}
	return secrets
}

func text(field string, m protoreflect.MethodDescriptor) string {
	switch field {
	case "remote_path":
		return `\\nas\data`
	case "local_path":
		return `C:\var\lib\kubelet\pods\link`
	case "username", "chap_username":
		return "alice"
	case "iqn":
		return "iqn.2025-01.com.example:data"
	case "target_address":
		if m.Name() == "RemoveTargetPortal" { // which comes before ConnectTarget
			return "192.0.2.99"
		}
		return "192.0.2.10"
	case "name":
		if m.Name() == "StopService" {
			return "NoSuchService"
		}
		return "MSiSCSI"
	}
	return "nothing"
}

// wantNoSecret fails the test if b contains the secret, plain or encoded.
func wantNoSecret(t *testing.T, what string, b []byte, secret string) {
	t.Helper()
	var wide []byte
	for _, u := range win32.UTF16(secret) {
		wide = append(wide, byte(u), byte(u>>8))
	}
	for form, text := range map[string][]byte{
		"plain":  []byte(secret),
		"UTF-16": wide,
		"hex":    []byte(hex.EncodeToString([]byte(secret))),
		"base64": []byte(base64.RawStdEncoding.EncodeToString([]byte(secret))),
	} {
		if i := bytes.Index(b, text); i >= 0 {
			t.Errorf("%s contains the secret (%s), near %q", what, form, b[max(0, i-80):i])
		}
	}
}
