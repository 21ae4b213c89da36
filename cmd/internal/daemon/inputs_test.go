package daemon_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/kubernetes-csi/csi-proxy/client"
	diskv1 "github.com/kubernetes-csi/csi-proxy/client/api/disk/v1"
	filesystemv1 "github.com/kubernetes-csi/csi-proxy/client/api/filesystem/v1"
	iscsi "github.com/kubernetes-csi/csi-proxy/client/api/iscsi/v1alpha2"
	systemv1 "github.com/kubernetes-csi/csi-proxy/client/api/system/v1alpha1"
	volumev1 "github.com/kubernetes-csi/csi-proxy/client/api/volume/v1"
	"github.com/kubernetes-csi/csi-proxy/client/apiversion"
	"github.com/kubernetes-csi/csi-proxy/client/transport"
)

// input is an encoded request.
type input struct {
	what  string // "remote_path: a NUL"
	bytes []byte
	// invalid means that no method may accept the request.
	invalid bool
}

// gone is the name of the invalid value that is the ID of a missing volume.
const gone = "a missing volume"

// invalidTexts are not a path, volume, disk, share, portal, target or service of a node.
var invalidTexts = map[string]string{
	"60 KiB":                   strings.Repeat("a", 60<<10),
	"60 KiB of path":           `C:\var\lib\kubelet\` + strings.Repeat(`a\`, 30<<10),
	"a NUL":                    "\x00",
	"a NUL at the end":         "C:\\var\\lib\\kubelet\\in\x00",
	"control characters":       "C:\\var\\lib\\kubelet\\in\r\n\x1b[2J",
	"invalid UTF-8":            "C:\\var\\lib\\kubelet\\\xff\xfe",
	"half a surrogate pair":    "C:\\var\\lib\\kubelet\\\xed\xa0\x80",
	"a device":                 "CON",
	"a device in a directory":  `C:\var\lib\kubelet\NUL`,
	"a device with a suffix":   `C:\var\lib\kubelet\com1.txt`,
	"dots":                     `..`,
	"dots in a path":           `C:\var\lib\kubelet\..\..\..\Windows`,
	"a share":                  `\\server\share\..\..`,
	"a share by its long name": `\\?\UNC\server\share`,
	"the devices of the node":  `\\?\GLOBALROOT\Device\HarddiskVolume1\Windows`,
	"a device path":            `\\.\PhysicalDrive0`,
	"a native path":            `\??\C:\Windows`,
	gone:                       `\\?\Volume{00000000-0000-0000-0000-000000000000}\`,
	"an invalid volume":        `\\?\Volume{zzzzzzzz}\`,
	"a drive":                  `C:`,
	"a relative path":          `var\lib\kubelet\in`,
	"a path of the drive":      `C:var`,
	"a stream":                 `C:\var\lib\kubelet\in:stream:$DATA`,
	"wildcards":                `C:\var\lib\kubelet\*?`,
	"slashes":                  `C:/Windows/in`,
	"another drive":            `Z:\var\lib\kubelet\in`,
	"no drive":                 `1:\var\lib\kubelet\in`,
	"a verb of printf":         `%s%n%!v(MISSING)`,
	"a command":                "$(Remove-Item C:\\ -Recurse); `whoami`",
	"WQL":                      `' OR Name LIKE '%`,
	"a negative number":        "-1",
	"a number of 33 bits":      "4294967296",
	"a number of 65 bits":      "18446744073709551616",
	"a hexadecimal number":     "0x1",
	"a number with a blank":    " 1",
	"a number in wide digits":  "１",
	"another script":           "ディスク\u202e\U0001F4A3",
	"a blank":                  " ",
}

// numbers are the limits of numeric fields.
var numbers = []uint64{0, 1, 2, math.MaxInt32, 1 << 31, math.MaxUint32, 1 << 32, math.MaxInt64, 1 << 63, math.MaxUint64}

// free are fields that may have any value, because only a server or target checks them.
var free = map[protoreflect.Name]bool{"chap_username": true, "chap_secret": true, "MutualChapSecret": true, "username": true, "password": true}

// odd are the invalidTexts for such fields.
var odd = []string{"60 KiB", "a NUL", "control characters", "invalid UTF-8", "another script"}

// base sets the fields of a request to valid values. ids are names of existing objects;
// a text that is not among them is a path.
func base(in protoreflect.Message, ids map[string]string) {
	fields := in.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.IsMap(), f.IsList() && f.Kind() != protoreflect.StringKind:
			panic("maps, and lists of other things than texts, are not supported: " + f.FullName())
		case f.Kind() == protoreflect.MessageKind:
			base(in.Mutable(f).Message(), ids)
		case f.Kind() == protoreflect.StringKind:
			id, ok := ids[strings.ToLower(string(f.Name()))]
			if !ok {
				id = ids["path"]
			}
			if f.IsList() {
				in.Mutable(f).List().Append(protoreflect.ValueOfString(id))
				continue
			}
			in.Set(f, protoreflect.ValueOfString(id))
		case f.Name() == "target_port":
			in.Set(f, protoreflect.ValueOfUint32(3260))
		case f.Kind() == protoreflect.Uint32Kind && f.Name() != "partition_number" && f.Name() != "allocation_unit_bytes":
			in.Set(f, protoreflect.ValueOfUint32(1))
		}
	}
}

// tooMuch is an input that exceeds the size limit.
const tooMuch = "a field of 64 KiB"

// inputs returns requests of a method: complete ones, and ones in which one field is
// absent, empty, extreme or wrong.
func inputs(m protoreflect.MethodDescriptor, ids map[string]string) []input {
	whole := dynamicpb.NewMessage(m.Input())
	base(whole, ids)
	full, err := proto.Marshal(whole)
	if err != nil {
		panic(err)
	}
	all := []input{
		{what: "no field"},
		{what: "every field", bytes: full},
		{what: "an unknown field", bytes: protowire.AppendString(protowire.AppendTag(full, protowire.MaxValidNumber, protowire.BytesType), "x")},
		{what: "unknown groups, a thousand deep", bytes: groups(full, 1000)},
		{what: "unknown groups, too deep", bytes: groups(full, 15000)},
		{what: "field 0", bytes: append(full[:len(full):len(full)], 0, 0), invalid: true},
		{what: "end of a group that has not started", bytes: protowire.AppendTag(full[:len(full):len(full)], 999, protowire.EndGroupType), invalid: true},
		{what: tooMuch, bytes: protowire.AppendBytes(protowire.AppendTag(nil, 999, protowire.BytesType), make([]byte, 64<<10)), invalid: true},
	}
	for i := range 8 {
		if cut := len(full) * i / 8; cut > 0 {
			all = append(all, input{what: fmt.Sprintf("cut off after %d of %d bytes", cut, len(full)), bytes: full[:cut]})
		}
	}
	random := rand.New(rand.NewPCG(1, uint64(len(m.FullName()))))
	for i := range 16 {
		b := make([]byte, 1+random.IntN(64))
		for j := range b {
			b[j] = byte(random.Uint32())
		}
		all = append(all, input{what: fmt.Sprintf("random bytes, number %d", i), bytes: b})
	}
	return append(all, fields(nil, whole, whole)...)
}

func groups(before []byte, depth int) []byte {
	b := before[:len(before):len(before)]
	for range depth {
		b = protowire.AppendTag(b, 999, protowire.StartGroupType)
	}
	for range depth {
		b = protowire.AppendTag(b, 999, protowire.EndGroupType)
	}
	return b
}

// fields returns inputs for each field of in. in is whole or, if above is not empty, a
// message inside it.
func fields(above []protoreflect.FieldDescriptor, whole, in protoreflect.Message) []input {
	var all []input
	for i := range in.Descriptor().Fields().Len() {
		f := in.Descriptor().Fields().Get(i)
		name := string(f.Name())
		for _, a := range above {
			name = string(a.Name()) + "." + name
		}
		// with adds the whole request with value in the place of f.
		with := func(what string, wrong bool, value []byte) {
			m := proto.Clone(whole.Interface()).ProtoReflect()
			inner := m
			for _, a := range above {
				inner = inner.Mutable(a).Message()
			}
			inner.Clear(f)
			b, err := proto.Marshal(m.Interface())
			if err != nil {
				panic(err)
			}
			for _, a := range above {
				value = protowire.AppendBytes(protowire.AppendTag(nil, a.Number(), protowire.BytesType), value)
			}
			all = append(all, input{what: name + ": " + what, bytes: append(b, value...), invalid: wrong})
		}
		tag := func(t protowire.Type) []byte { return protowire.AppendTag(nil, f.Number(), t) }
		with("absent", false, nil)
		with("as a number", false, protowire.AppendVarint(tag(protowire.VarintType), 1))
		with("as bytes", false, protowire.AppendBytes(tag(protowire.BytesType), []byte{1}))
		with("as fixed32", false, protowire.AppendFixed32(tag(protowire.Fixed32Type), 1))
		with("as fixed64", false, protowire.AppendFixed64(tag(protowire.Fixed64Type), 1))
		with("as a group", false, protowire.AppendTag(tag(protowire.StartGroupType), f.Number(), protowire.EndGroupType))
		with("of an invalid type", true, protowire.AppendTag(nil, f.Number(), 7))
		with("longer than the input", true, append(protowire.AppendVarint(tag(protowire.BytesType), 1000), 'x'))
		with("of the maximum length", true, append(protowire.AppendVarint(tag(protowire.BytesType), math.MaxUint64), 'x'))
		with("a number of 70 bits", true, append(tag(protowire.VarintType), 255, 255, 255, 255, 255, 255, 255, 255, 255, 127))

		switch f.Kind() {
		case protoreflect.StringKind:
			with("empty", false, protowire.AppendBytes(tag(protowire.BytesType), nil))
			for _, what := range slices.Sorted(maps.Keys(invalidTexts)) {
				if free[f.Name()] && !slices.Contains(odd, what) {
					continue
				}
				// A volume may be missing when it is unmounted (docs/drivers/compared.md#d17).
				wrong := !free[f.Name()] && (what != gone || f.Name() != "volume_id" || !strings.HasSuffix(string(in.Descriptor().Name()), "mountVolumeRequest"))
				with(what, wrong, protowire.AppendString(tag(protowire.BytesType), invalidTexts[what]))
			}
		case protoreflect.Uint32Kind, protoreflect.Int64Kind, protoreflect.Uint64Kind, protoreflect.EnumKind, protoreflect.BoolKind:
			for _, n := range numbers {
				// Protobuf truncates numbers that are too large for a field: 2³² is 0 in 32 bits.
				wrong := f.Name() == "auth_type" && uint32(n) > 2 || f.Kind() == protoreflect.Int64Kind && int64(n) < 0 ||
					f.Name() == "target_port" && uint32(n) > math.MaxUint16
				with(strconv.FormatInt(int64(n), 10), wrong, protowire.AppendVarint(tag(protowire.VarintType), n))
			}
		case protoreflect.MessageKind:
			with("empty", false, protowire.AppendBytes(tag(protowire.BytesType), nil))
			all = append(all, fields(append(above[:len(above):len(above)], f), whole, in.Get(f).Message())...)
		default:
			panic("no values for " + f.FullName())
		}
	}
	return all
}

// answers are the codes that describe a problem of a request or of the node. Internal and
// Unknown do not.
var answers = []codes.Code{codes.OK, codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied,
	codes.FailedPrecondition, codes.OutOfRange, codes.Unavailable}

// rawCodec sends bytes, which need not be a valid message.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error)   { return v.([]byte), nil }
func (rawCodec) Unmarshal(b []byte, v any) error { *v.(*[]byte) = b; return nil }
func (rawCodec) Name() string                    { return "proto" }

// The test calls every method of every version with each field absent, empty, extreme and
// wrong. Each call must fail with an error that describes the problem. The first request
// without a portal crashes the published CSI Proxy (docs/drivers/compared.md#d1).
func TestInvalidFieldsAreRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("calls every method with every wrong value, which takes up to a minute; runs without -short")
	}
	sockets(t)
	p := start(t, "-node-config="+targetsConfig(t))
	p.await(t, "Serving ")
	n := newTestNode(t)

	var mu sync.Mutex
	requests, methods, portals := 0, 0, 0
	got := map[codes.Code]int{}
	begin := time.Now()
	t.Run("requests", func(t *testing.T) {
		for _, s := range publishedServices(t) {
			t.Run(string(s.FullName()), func(t *testing.T) {
				if s.Name() == "Iscsi" {
					t.Parallel() // the methods wait for disks of their own target
				}
				conn := n.connect(t, strings.ToLower(string(s.Name())), string(s.ParentFile().Package()))
				for i := range s.Methods().Len() {
					m := s.Methods().Get(i)
					ids := n.prepare(t, m)
					far := false
					for _, in := range inputs(m, ids) {
						code, portal := try(t, conn, m, in)
						far = far || code == codes.OK
						mu.Lock()
						requests++
						got[code]++
						if portal {
							portals++
						}
						mu.Unlock()
					}
					if !far && m.Name() != "GetDiskNumberByName" { // the disk does not exist
						t.Errorf("%s never succeeded, so its requests were not executed", m.Name())
					}
					mu.Lock()
					methods++
					mu.Unlock()
				}
			})
		}
	})
	wantMethods, wantPortals := 0, 0
	for _, m := range publishedMethods(t) {
		wantMethods++
		if m.Input().Fields().ByName("target_portal") != nil {
			wantPortals++
		}
	}
	if methods != wantMethods || portals != wantPortals {
		t.Errorf("%d methods were called, and %d without a portal, want %d and %d", methods, portals, wantMethods, wantPortals)
	}
	t.Attr("measured", fmt.Sprintf("%d requests of %d methods in %v: %v", requests, methods, time.Since(begin).Round(time.Second), got))

	if _, err := n.disks.Rescan(t.Context(), &diskv1.RescanRequest{}); err != nil {
		t.Errorf("a call afterwards: %v", err)
	}
	if output, _ := p.output(); strings.Contains(output, "panic") || strings.Contains(output, "goroutine ") {
		t.Errorf("the log contains a panic:\n%s", output)
	}
	p.cmd.Process.Signal(syscall.SIGTERM)
	if code := p.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// targetsConfig writes the description of a node that has an iSCSI target for each version
// of the API, and returns the file.
func targetsConfig(t *testing.T) string {
	t.Helper()
	targets := "iscsi:\n  targets:\n"
	for _, s := range publishedServices(t) {
		if s.Name() == "Iscsi" {
			targets += fmt.Sprintf("    - {iqn: %q, portals: [%s], luns: [{disk: {size: 1GiB}}]}\n", iqnOf(s), portalOf(t, s))
		}
	}
	file := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(file, []byte(targets), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// iqnOf returns the iSCSI target for requests of a version.
func iqnOf(s protoreflect.Descriptor) string {
	return "iqn.2025-01.com.example:" + string(s.ParentFile().Package())
}

// portalOf returns the address of the portal of that target.
func portalOf(t *testing.T, s protoreflect.Descriptor) string {
	t.Helper()
	i := slices.IndexFunc(publishedServices(t), func(p protoreflect.ServiceDescriptor) bool { return p.ParentFile() == s.ParentFile() })
	return fmt.Sprintf("192.0.2.%d", 10+i)
}

// try sends a request and checks the response. portal is true for a request without a
// portal.
func try(t *testing.T, conn *grpc.ClientConn, m protoreflect.MethodDescriptor, in input) (code codes.Code, portal bool) {
	ctx, cancel := context.WithTimeout(t.Context(), longLimit)
	defer cancel()
	var out []byte
	err := conn.Invoke(ctx, fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name()), in.bytes, &out, grpc.ForceCodec(rawCodec{}))
	code = status.Code(err)
	switch {
	case in.what == tooMuch:
		if code != codes.ResourceExhausted {
			t.Errorf("%s with %s: %v, want ResourceExhausted", m.Name(), in.what, err)
		}
	case !slices.Contains(answers, code):
		t.Errorf("%s with %s: %v", m.Name(), in.what, err)
	case err != nil && len(status.Convert(err).Details()) != 1:
		t.Errorf("%s with %s: %v, which is not an error of the daemon", m.Name(), in.what, err)
	case err == nil && in.invalid:
		t.Errorf("%s with %s succeeded: refuse it or, if the field may have any value, add it to free in this test", m.Name(), in.what)
	case err == nil:
		if err := proto.Unmarshal(out, dynamicpb.NewMessage(m.Output())); err != nil {
			t.Errorf("%s with %s: cannot decode the response: %v", m.Name(), in.what, err)
		}
	}
	if portal = in.what == "target_portal: absent"; portal && (code != codes.InvalidArgument || !strings.Contains(err.Error(), "no target portal")) {
		t.Errorf("D1: %s without a portal: %v, want InvalidArgument with the reason", m.Name(), err)
	}
	return code, portal
}

// testNode prepares the node for requests.
type testNode struct {
	disks   diskv1.DiskClient
	volumes volumev1.VolumeClient
	files   filesystemv1.FilesystemClient
	system  systemv1.SystemClient
	iscsi   iscsi.IscsiClient
}

func newTestNode(t *testing.T) *testNode {
	n := new(testNode)
	n.disks = diskv1.NewDiskClient(n.connect(t, "disk", "v1"))
	n.volumes = volumev1.NewVolumeClient(n.connect(t, "volume", "v1"))
	n.files = filesystemv1.NewFilesystemClient(n.connect(t, "filesystem", "v1"))
	n.system = systemv1.NewSystemClient(n.connect(t, "system", "v1alpha1"))
	n.iscsi = iscsi.NewIscsiClient(n.connect(t, "iscsi", "v1alpha2"))
	return n
}

func (*testNode) connect(t *testing.T, group, version string) *grpc.ClientConn {
	t.Helper()
	c, err := transport.Connect(client.PipePath(group, apiversion.NewVersionOrPanic(version)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// prepare creates on the node what a valid request of m needs, and returns the values of
// such a request by field name.
func (n *testNode) prepare(t *testing.T, m protoreflect.MethodDescriptor) map[string]string {
	t.Helper()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("before %s: %v", m.Name(), err)
		}
	}
	const path, link = `C:\var\lib\kubelet\in`, `C:\var\lib\kubelet\smb`
	ids := map[string]string{
		"diskid": "1", "disk_id": "1", "disk_name": "nothing",
		"path": path, "target_path": path, "mount": path, "source_path": `C:\var\lib\kubelet\src`,
		"remote_path": `\\files.example.com\data`, "local_path": link, "username": "csi", "password": "csi",
		"target_address": portalOf(t, m), "iqn": iqnOf(m),
		"chap_username": "csi", "chap_secret": "123456789012", "mutualchapsecret": "123456789012",
		"name": "MSiSCSI", "filesystem": "ntfs",
	}
	if m.Parent().Name() == "Iscsi" {
		portal := &iscsi.TargetPortal{TargetAddress: ids["target_address"]}
		must(n.system.StartService(t.Context(), &systemv1.StartServiceRequest{Name: "MSiSCSI"}))
		must(n.iscsi.AddTargetPortal(t.Context(), &iscsi.AddTargetPortalRequest{TargetPortal: portal}))
		must(n.iscsi.DiscoverTargetPortal(t.Context(), &iscsi.DiscoverTargetPortalRequest{TargetPortal: portal}))
		return ids
	}
	must(n.disks.PartitionDisk(t.Context(), &diskv1.PartitionDiskRequest{DiskNumber: 1}))
	must(n.disks.SetDiskState(t.Context(), &diskv1.SetDiskStateRequest{DiskNumber: 1, IsOnline: true}))
	list, err := n.volumes.ListVolumesOnDisk(t.Context(), &volumev1.ListVolumesOnDiskRequest{DiskNumber: 1})
	must(list, err)
	ids["volume_id"] = list.VolumeIds[0]
	must(n.volumes.FormatVolume(t.Context(), &volumev1.FormatVolumeRequest{VolumeId: ids["volume_id"]}))
	for _, dir := range []string{path, link} {
		must(n.files.Rmdir(t.Context(), &filesystemv1.RmdirRequest{Path: dir, Force: true}))
	}
	must(n.files.Mkdir(t.Context(), &filesystemv1.MkdirRequest{Path: ids["source_path"]}))
	switch m.Name() {
	case "CreateSymlink", "LinkPath": // create the path
	default:
		must(n.files.Mkdir(t.Context(), &filesystemv1.MkdirRequest{Path: path}))
	}
	if strings.HasPrefix(string(m.Name()), "GetVolumeIDFrom") {
		must(n.volumes.MountVolume(t.Context(), &volumev1.MountVolumeRequest{VolumeId: ids["volume_id"], TargetPath: path}))
	}
	return ids
}

// No text of a request begins a line of the log, in any field of any method.
func TestRequestsCannotForgeLogLines(t *testing.T) {
	sockets(t)
	p := start(t, "-v=10")
	p.await(t, "Serving ")
	const forged = "I0101 00:00:00.000000 1 audit.go:1] \"Audit\" caller=1"
	var fill func(in protoreflect.Message, text string)
	fill = func(in protoreflect.Message, text string) {
		fields := in.Descriptor().Fields()
		for i := range fields.Len() {
			switch f := fields.Get(i); {
			case f.Message() != nil:
				fill(in.Mutable(f).Message(), text)
			case f.Kind() == protoreflect.StringKind && f.IsList():
				in.Mutable(f).List().Append(protoreflect.ValueOfString(text))
			case f.Kind() == protoreflect.StringKind:
				in.Set(f, protoreflect.ValueOfString(text))
			}
		}
	}
	for _, s := range publishedServices(t) {
		conn := connectTo(t, s)
		for i := range s.Methods().Len() {
			m := s.Methods().Get(i)
			for _, before := range []string{"", `C:\var\lib\kubelet\a`, `\\server\share`} {
				in := dynamicpb.NewMessage(m.Input())
				fill(in, before+"\n"+forged)
				if err := conn.Invoke(t.Context(), fmt.Sprintf("/%s/%s", s.FullName(), m.Name()), in, dynamicpb.NewMessage(m.Output())); status.Code(err) == codes.Unavailable {
					t.Fatalf("%s: %v", m.FullName(), err)
				}
			}
		}
		conn.Close()
	}
	output, _ := p.output()
	if !strings.Contains(output, "audit.go:1") {
		t.Error("the log has no text of the requests")
	}
	for line := range strings.Lines(output) {
		if strings.HasPrefix(strings.TrimSpace(line), "I0101") {
			t.Errorf("the log has a line that a request has written: %q", line)
		}
	}
}
