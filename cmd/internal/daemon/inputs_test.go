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

// input is a request as it goes over the wire.
type input struct {
	what  string // "remote_path: a NUL"
	bytes []byte
	// nonsense is something that no method may take for a value.
	nonsense bool
}

// gone is the ID of a volume that the node does not have.
const gone = "a volume that is not"

// nonsense are texts that are no path, volume, disk, share, portal, target or
// service of a node.
var nonsense = map[string]string{
	"60 KiB":                   strings.Repeat("a", 60<<10),
	"60 KiB of path":           `C:\var\lib\kubelet\` + strings.Repeat(`a\`, 30<<10),
	"a NUL":                    "\x00",
	"a NUL at the end":         "C:\\var\\lib\\kubelet\\in\x00",
	"control characters":       "C:\\var\\lib\\kubelet\\in\r\n\x1b[2J",
	"no UTF-8":                 "C:\\var\\lib\\kubelet\\\xff\xfe",
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
	"a volume of nonsense":     `\\?\Volume{zzzzzzzz}\`,
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

// numbers are at the ends of what fits into a field.
var numbers = []uint64{0, 1, 2, math.MaxInt32, 1 << 31, math.MaxUint32, 1 << 32, math.MaxInt64, 1 << 63, math.MaxUint64}

// free are fields that may hold any text: the server or target compares them with
// what it knows, or is not asked.
var free = map[protoreflect.Name]bool{"chap_username": true, "chap_secret": true, "MutualChapSecret": true, "username": true, "password": true}

// odd are those of nonsense that such fields get.
var odd = []string{"60 KiB", "a NUL", "control characters", "no UTF-8", "another script"}

// base gives a request values that get far. ids are of things on the node.
func base(in protoreflect.Message, ids map[string]string) {
	fields := in.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.IsList(), f.IsMap():
			panic("no request has a list or a map; now " + f.FullName() + " is one, and has to be filled")
		case f.Kind() == protoreflect.MessageKind:
			base(in.Mutable(f).Message(), ids)
		case f.Kind() == protoreflect.StringKind:
			id, ok := ids[strings.ToLower(string(f.Name()))]
			if !ok {
				panic("no value for " + f.FullName())
			}
			in.Set(f, protoreflect.ValueOfString(id))
		case f.Name() == "target_port":
			in.Set(f, protoreflect.ValueOfUint32(3260))
		case f.Kind() == protoreflect.Uint32Kind && f.Name() != "partition_number":
			in.Set(f, protoreflect.ValueOfUint32(1))
		}
	}
}

// tooMuch is more than a request may have.
const tooMuch = "a field of 64 KiB"

// inputs are requests of one method: whole ones, and ones in which one field is
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
		{what: "unknown groups, deeper than may be", bytes: groups(full, 15000)},
		{what: "field 0", bytes: append(full[:len(full):len(full)], 0, 0), nonsense: true},
		{what: "a group that ends and has not begun", bytes: protowire.AppendTag(full[:len(full):len(full)], 999, protowire.EndGroupType), nonsense: true},
		{what: tooMuch, bytes: protowire.AppendBytes(protowire.AppendTag(nil, 999, protowire.BytesType), make([]byte, 64<<10)), nonsense: true},
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

// fields are inputs for each field of in, which is whole or, below above, a
// message in it.
func fields(above []protoreflect.FieldDescriptor, whole, in protoreflect.Message) []input {
	var all []input
	for i := range in.Descriptor().Fields().Len() {
		f := in.Descriptor().Fields().Get(i)
		name := string(f.Name())
		for _, a := range above {
			name = string(a.Name()) + "." + name
		}
		// with is the whole request, in it value in the place of f.
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
			all = append(all, input{what: name + ": " + what, bytes: append(b, value...), nonsense: wrong})
		}
		tag := func(t protowire.Type) []byte { return protowire.AppendTag(nil, f.Number(), t) }
		with("absent", false, nil)
		with("as a number", false, protowire.AppendVarint(tag(protowire.VarintType), 1))
		with("as bytes", false, protowire.AppendBytes(tag(protowire.BytesType), []byte{1}))
		with("as fixed32", false, protowire.AppendFixed32(tag(protowire.Fixed32Type), 1))
		with("as fixed64", false, protowire.AppendFixed64(tag(protowire.Fixed64Type), 1))
		with("as a group", false, protowire.AppendTag(tag(protowire.StartGroupType), f.Number(), protowire.EndGroupType))
		with("of a type that is not", true, protowire.AppendTag(nil, f.Number(), 7))
		with("longer than what follows", true, append(protowire.AppendVarint(tag(protowire.BytesType), 1000), 'x'))
		with("of a length beyond all", true, append(protowire.AppendVarint(tag(protowire.BytesType), math.MaxUint64), 'x'))
		with("a number of 70 bits", true, append(tag(protowire.VarintType), 255, 255, 255, 255, 255, 255, 255, 255, 255, 127))

		switch f.Kind() {
		case protoreflect.StringKind:
			with("empty", false, protowire.AppendBytes(tag(protowire.BytesType), nil))
			for _, what := range slices.Sorted(maps.Keys(nonsense)) {
				if free[f.Name()] && !slices.Contains(odd, what) {
					continue
				}
				// A volume may be gone before it is unmounted (docs/contract/defects.md#d17).
				wrong := !free[f.Name()] && (what != gone || f.Name() != "volume_id" || !strings.HasSuffix(string(in.Descriptor().Name()), "mountVolumeRequest"))
				with(what, wrong, protowire.AppendString(tag(protowire.BytesType), nonsense[what]))
			}
		case protoreflect.Uint32Kind, protoreflect.Int64Kind, protoreflect.Uint64Kind, protoreflect.EnumKind, protoreflect.BoolKind:
			for _, n := range numbers {
				// More than a field holds is cut by protobuf: 2³² is 0 in 32 bits.
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

// answers are the codes that say what is wrong with a request, or what is in its
// way on the node. Internal and Unknown say that nobody knows.
var answers = []codes.Code{codes.OK, codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied,
	codes.FailedPrecondition, codes.OutOfRange, codes.Unavailable}

// asItIs is a codec for bytes that may be no message.
type asItIs struct{}

func (asItIs) Marshal(v any) ([]byte, error)   { return v.([]byte), nil }
func (asItIs) Unmarshal(b []byte, v any) error { *v.(*[]byte) = b; return nil }
func (asItIs) Name() string                    { return "proto" }

// Every method of every version, with each field absent, empty, extreme and wrong:
// an answer each time that says what is wrong. The first of them that has no
// portal ends the existing CSI Proxy (docs/contract/defects.md#d1).
func TestEveryFieldOfEveryMethod(t *testing.T) {
	sockets(t)
	config := filepath.Join(t.TempDir(), "node.yaml")
	targets := "iscsi:\n  targets:\n"
	for _, s := range publishedServices(t) {
		if s.Name() == "Iscsi" {
			targets += fmt.Sprintf("    - {iqn: %q, portals: [{address: %s}], luns: [{disk: {size: 1GiB}}]}\n", iqnOf(s), portalOf(t, s))
		}
	}
	if err := os.WriteFile(config, []byte(targets), 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "-node-config="+config)
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
					t.Parallel() // they wait for disks, each for those of its own target
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
					if !far && m.Name() != "GetDiskNumberByName" { // of a disk that is not there
						t.Errorf("%s never succeeded, so its requests did not get far", m.Name())
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
		t.Errorf("afterwards: %v", err)
	}
	if said, _ := p.said(); strings.Contains(said, "panic") || strings.Contains(said, "goroutine ") {
		t.Errorf("the log tells of a panic:\n%s", said)
	}
	p.cmd.Process.Signal(syscall.SIGTERM)
	if code := p.exit(t); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// iqnOf is the iSCSI target that the requests of a version name.
func iqnOf(s protoreflect.Descriptor) string {
	return "iqn.2025-01.com.example:" + string(s.ParentFile().Package())
}

// portalOf is the address of the portal of that target.
func portalOf(t *testing.T, s protoreflect.Descriptor) string {
	t.Helper()
	i := slices.IndexFunc(publishedServices(t), func(p protoreflect.ServiceDescriptor) bool { return p.ParentFile() == s.ParentFile() })
	return fmt.Sprintf("192.0.2.%d", 10+i)
}

// try sends one request and judges its answer. portal tells that the request was
// one of those without a portal.
func try(t *testing.T, conn *grpc.ClientConn, m protoreflect.MethodDescriptor, in input) (code codes.Code, portal bool) {
	ctx, cancel := context.WithTimeout(t.Context(), hung)
	defer cancel()
	var out []byte
	err := conn.Invoke(ctx, fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name()), in.bytes, &out, grpc.ForceCodec(asItIs{}))
	code = status.Code(err)
	switch {
	case in.what == tooMuch:
		if code != codes.ResourceExhausted {
			t.Errorf("%s with %s: %v, want ResourceExhausted", m.Name(), in.what, err)
		}
	case !slices.Contains(answers, code):
		t.Errorf("%s with %s: %v", m.Name(), in.what, err)
	case err != nil && len(status.Convert(err).Details()) != 1:
		t.Errorf("%s with %s: %v, which the daemon did not say", m.Name(), in.what, err)
	case err == nil && in.nonsense:
		t.Errorf("%s with %s succeeded", m.Name(), in.what)
	case err == nil:
		if err := proto.Unmarshal(out, dynamicpb.NewMessage(m.Output())); err != nil {
			t.Errorf("%s with %s: the answer cannot be read: %v", m.Name(), in.what, err)
		}
	}
	if portal = in.what == "target_portal: absent"; portal && (code != codes.InvalidArgument || !strings.Contains(err.Error(), "no target portal")) {
		t.Errorf("D1: %s without a portal: %v, want InvalidArgument that says so", m.Name(), err)
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

// prepare makes on the node what a request of m needs to get far, and returns
// the values of such a request by the names of fields.
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
		"name": "MSiSCSI",
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
	case "CreateSymlink", "LinkPath": // make it
	default:
		must(n.files.Mkdir(t.Context(), &filesystemv1.MkdirRequest{Path: path}))
	}
	if strings.HasPrefix(string(m.Name()), "GetVolumeIDFrom") {
		must(n.volumes.MountVolume(t.Context(), &volumev1.MountVolumeRequest{VolumeId: ids["volume_id"], TargetPath: path}))
	}
	return ids
}
