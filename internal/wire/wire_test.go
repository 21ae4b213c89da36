package wire_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire"
	"github.com/kubernetes-csi/csi-proxy/v2/internal/wire/wiretest"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/disk"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/hosterr"
	"github.com/kubernetes-csi/csi-proxy/v2/pkg/iscsi"
)

// endpoint is one method of one version.
type endpoint struct {
	wire.Service
	method  grpc.MethodDesc
	desc    protoreflect.MethodDescriptor
	request protoreflect.MessageType // of the version, which may differ from that of the row
	answer  protoreflect.MessageType
}

func (e endpoint) String() string { return e.Service.String() + " " + e.method.MethodName }

func endpoints(t testing.TB, g wire.Groups) []endpoint {
	t.Helper()
	var all []endpoint
	for _, s := range wire.Services(g) {
		desc := serviceDescriptor(t, s)
		for _, m := range s.Desc.Methods {
			e := endpoint{Service: s, method: m, desc: desc.Methods().ByName(protoreflect.Name(m.MethodName))}
			if e.desc == nil {
				t.Fatalf("%s: the .proto file of this version has no such method", e)
			}
			e.request = messageType(t, e.desc.Input())
			e.answer = messageType(t, e.desc.Output())
			all = append(all, e)
		}
	}
	return all
}

func serviceDescriptor(t testing.TB, s wire.Service) protoreflect.ServiceDescriptor {
	t.Helper()
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(s.Desc.ServiceName))
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return d.(protoreflect.ServiceDescriptor)
}

func messageType(t testing.TB, d protoreflect.MessageDescriptor) protoreflect.MessageType {
	t.Helper()
	mt, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		t.Fatal(err)
	}
	return mt
}

// call calls a row with an encoded request, like a gRPC server.
func (e endpoint) call(request []byte, interceptor grpc.UnaryServerInterceptor) ([]byte, error) {
	out, err := e.method.Handler(e.Impl, context.Background(), func(in any) error {
		return proto.Unmarshal(request, in.(proto.Message))
	}, interceptor)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(out.(proto.Message))
}

// ask calls the endpoint with the messages of its own version.
func (e endpoint) ask(t testing.TB, request proto.Message) (protoreflect.Message, error) {
	t.Helper()
	b, err := proto.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = e.call(b, nil); err != nil {
		return nil, err
	}
	out := e.answer.New()
	if err := proto.Unmarshal(b, out.Interface()); err != nil {
		t.Fatalf("%s: answer: %v", e, err)
	}
	return out, nil
}

// filled returns a request of the version with all fields set.
func (e endpoint) filled() proto.Message {
	m := e.request.New()
	fillMessage(m, "")
	return m.Interface()
}

func TestEveryPublishedMethodIsServed(t *testing.T) {
	served := map[string]wire.Service{}
	for _, s := range wire.Services(groups(&recorder{})) {
		served[s.String()] = s
	}
	protos, err := filepath.Glob("../../client/api/*/*/api.proto")
	if err != nil {
		t.Fatal(err)
	}
	if len(protos) == 0 {
		t.Fatal("found no .proto files")
	}
	for _, p := range protos {
		version := path.Dir(filepath.ToSlash(p))
		name := path.Base(path.Dir(version)) + "/" + path.Base(version)
		s, ok := served[name]
		if !ok {
			t.Errorf("%s: this version is not served; run: make generate", name)
			continue
		}
		delete(served, name)

		desc := serviceDescriptor(t, s)
		if got, want := s.Desc.Metadata, desc.ParentFile().Path(); got != want {
			t.Errorf("%s: Metadata = %v, want the registered path %q", s, got, want)
		}
		bound := map[string]int{}
		for _, m := range s.Desc.Methods {
			bound[m.MethodName]++
		}
		for i := range desc.Methods().Len() {
			m := string(desc.Methods().Get(i).Name())
			if bound[m] != 1 {
				t.Errorf("%s %s: %d rows serve it, want 1", s, m, bound[m])
			}
			delete(bound, m)
		}
		for m := range bound {
			t.Errorf("%s %s: the version does not have this method, but a row serves it", s, m)
		}
	}
	for name := range served {
		t.Errorf("%s is served, but has no .proto file", name)
	}
}

func TestNilGroupIsNotServed(t *testing.T) {
	if got := wire.Services(wire.Groups{}); len(got) != 0 {
		t.Errorf("Services of nothing = %v, want none", got)
	}
	for _, s := range wire.Services(wire.Groups{SMB: groups(&recorder{}).SMB}) {
		if s.Group != "smb" {
			t.Errorf("%s is served, only smb was given", s)
		}
	}
}

// toPkg returns the name in pkg of a leaf of a version's message.
func (e endpoint) toPkg(leaf string) string {
	return wiretest.InPkg(e.Group, e.method.MethodName, leaf)
}

// leaves returns the names in pkg of the leaves of the version's messages.
func (e endpoint) leaves(t *testing.T) (request, response map[string]bool) {
	t.Helper()
	request, response, err := wiretest.Leaves(e.Service, e.method.MethodName)
	if err != nil {
		t.Fatal(err)
	}
	return request, response
}

// newest returns the newest endpoint with a method of a Service. Only in older ones may
// fields of pkg be absent.
func newest(all []endpoint, group, method string) (found endpoint) {
	for _, e := range all {
		if e.Group == group && strings.EqualFold(e.method.MethodName, method) {
			found = e // versions are sorted
		}
	}
	return found
}

// lookup is the only method that does more than a conversion; it has its own test.
func (e endpoint) lookup() bool { return e.method.MethodName == "GetDiskNumberByName" }

// TestRequestFieldsReachService sends a distinct value in each field of the version's
// message, and then changes one field after the other. In pkg's request exactly the
// corresponding field must change. A field that is absent in the version is zero.
func TestRequestFieldsReachService(t *testing.T) {
	r := &recorder{}
	fields := 0
	all := endpoints(t, groups(r))
	for _, e := range all {
		if e.lookup() {
			continue
		}
		send := func(other string) (sent, got leaves) {
			m := e.request.New()
			sent = fillMessage(m, other)
			if _, err := e.ask(t, m.Interface()); err != nil {
				t.Fatalf("%s(%v): %v", e, m.Interface(), err)
			}
			return sent, leavesOfStruct(r.got)
		}
		sent, got := send("")
		want := leaves{}
		for leaf, value := range sent {
			if to := e.toPkg(leaf); to != "-" {
				want[to] = value
			}
		}
		if e.String() != newest(all, e.Group, r.method).String() {
			has, _ := e.leaves(t)
			for leaf, value := range got {
				if !has[leaf] && slices.Contains([]string{"", "0", "false", "nil"}, value) {
					want[leaf] = value
				}
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: pkg got %v of %v, want %v", e, got, sent, want)
		}
		for _, leaf := range sent.names() {
			fields++
			_, changed := send(leaf)
			var want []string
			if to := e.toPkg(leaf); to != "-" {
				want = []string{to}
			}
			if d := differing(got, changed); !slices.Equal(d, want) {
				t.Errorf("%s: a change of field %q changed %q in pkg, want %q", e, leaf, d, want)
			}
		}
	}
	t.Logf("%d fields of requests", fields)
}

// TestResponseFieldsReachClient is the same in the other direction. A field that is absent
// in the version does not reach the client.
func TestResponseFieldsReachClient(t *testing.T) {
	r := &recorder{}
	fields := 0
	all := endpoints(t, groups(r))
	for _, e := range all {
		if e.lookup() {
			continue
		}
		receive := func(other string) (answered, got leaves) {
			r.fill = func(resp any) { answered = fillStruct(resp, other) }
			out, err := e.ask(t, e.filled())
			if err != nil {
				t.Fatalf("%s: %v", e, err)
			}
			got = leaves{}
			for leaf, value := range leavesOfMessage(out) {
				to := e.toPkg(leaf)
				if to == "-" {
					if value != "" {
						t.Errorf("%s: field %q is %q, want it empty", e, leaf, value)
					}
					continue
				}
				got[to] = value
			}
			return answered, got
		}
		answered, got := receive("")
		want, absent := maps.Clone(answered), map[string]bool{}
		if _, has := e.leaves(t); e.String() != newest(all, e.Group, r.method).String() {
			for leaf := range answered {
				if !has[leaf] {
					delete(want, leaf)
					absent[leaf] = true
				}
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: the client got %v, want %v", e, got, want)
		}
		for _, leaf := range answered.names() {
			fields++
			_, changed := receive(leaf)
			if d := differing(got, changed); !slices.Equal(d, []string{leaf}) && !(absent[leaf] && len(d) == 0) {
				t.Errorf("%s: a change of pkg's %q changed %q of the response", e, leaf, d)
			}
		}
	}
	t.Logf("%d fields of responses", fields)
}

func differing(a, b leaves) []string {
	var names []string
	for n := range a {
		if a[n] != b[n] {
			names = append(names, n)
		}
	}
	for n := range b {
		if _, ok := a[n]; !ok {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	return names
}

// TestRenamedFieldsExist finds unused entries in the table of renamed fields.
func TestRenamedFieldsExist(t *testing.T) {
	have := map[string]bool{}
	for _, e := range endpoints(t, groups(&recorder{})) {
		note := func(mt protoreflect.MessageType) {
			for leaf := range leavesOfMessage(mt.New()) {
				have[e.Group+" "+e.method.MethodName+" "+leaf] = true
			}
		}
		note(e.request)
		note(e.answer)
	}
	for method, names := range wiretest.Renamed() {
		for leaf := range names {
			if !have[method+" "+leaf] && !strings.Contains(leaf, "{") {
				t.Errorf("%s has no field %q in any version", method, leaf)
			}
		}
	}
}

func TestInterceptorSeesCalledVersion(t *testing.T) {
	r := &recorder{}
	for _, e := range endpoints(t, groups(r)) {
		if e.lookup() {
			continue
		}
		r.method = ""
		want := fmt.Sprintf("/%s/%s", e.desc.Parent().FullName(), e.desc.Name())
		seen := ""
		b, err := proto.Marshal(e.filled())
		if err != nil {
			t.Fatal(err)
		}
		_, err = e.call(b, func(ctx context.Context, in any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			seen = info.FullMethod
			if info.Server != e.Impl {
				t.Errorf("%s: interceptor got server %v", e, info.Server)
			}
			return next(ctx, in)
		})
		if err != nil || seen != want || r.method == "" {
			t.Errorf("%s: interceptor saw %q, want %q; service called: %q, error %v", e, seen, want, r.method, err)
		}

		r.method = ""
		refused := errors.New("refused")
		if _, err := e.call(b, func(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) {
			return nil, refused
		}); err != refused || r.method != "" {
			t.Errorf("%s: the interceptor returned an error; service called: %q, error %v", e, r.method, err)
		}
	}
}

// forwards are the prefixes of the errors of methods that call a newer one.
var forwards = map[string]string{
	"DismountVolume":       "Forward to UnmountVolume failed, err=",
	"VolumeStats":          "Forward to GetVolumeStats failed, err=",
	"GetVolumeDiskNumber":  "Forward to GetDiskNumberFromVolumeID failed, err=",
	"GetVolumeIDFromMount": "Forward to GetVolumeIDFromTargetPath failed, err=",
}

func TestServiceErrorsAreUnchanged(t *testing.T) {
	r := &recorder{err: hosterr.Wrap("do it", "there", hosterr.ErrFailedPrecondition)}
	seen := map[string]bool{}
	for _, e := range endpoints(t, groups(r)) {
		_, err := e.ask(t, e.filled())
		if want := forwards[e.method.MethodName] + r.err.Error(); !errors.Is(err, hosterr.ErrFailedPrecondition) || err.Error() != want {
			t.Errorf("%s: error %v, want %s", e, err, want)
		}
		if forwards[e.method.MethodName] != "" {
			seen[e.method.MethodName] = true
		}
	}
	if len(seen) != len(forwards) {
		t.Errorf("forwarded methods: found %v, want %v", seen, forwards)
	}
}

func TestMissingResponseIsAnError(t *testing.T) {
	r := &recorder{silent: true}
	for _, e := range endpoints(t, groups(r)) {
		if out, err := e.ask(t, e.filled()); err == nil || !strings.Contains(err.Error(), "neither a response nor an error") {
			t.Errorf("%s: the service returned neither response nor error, and the client got %v, %v", e, out, err)
		}
	}
}

func TestInvalidDiskNumbersAreRefused(t *testing.T) {
	texts := map[string]string{ // by method, before the error of strconv
		"PartitionDisk":     "Failed to convert %s.PartitionDiskRequest.DiskID to uint32: ",
		"DiskStats":         "Failed to format DiskStatsRequest.DiskID with err: ",
		"SetAttachState":    "Failed to format SetAttachStateRequest.DiskID with err: ",
		"GetAttachState":    "Failed to format GetAttachStateRequest.DiskID with err: ",
		"ListVolumesOnDisk": "Failed to parse diskId: err=",
	}
	values := map[string]string{
		"abc":        `strconv.ParseUint: parsing "abc": invalid syntax`,
		"":           `strconv.ParseUint: parsing "": invalid syntax`,
		"-1":         `strconv.ParseUint: parsing "-1": invalid syntax`,
		"1_0":        `strconv.ParseUint: parsing "1_0": invalid syntax`,
		"0x1":        `strconv.ParseUint: parsing "0x1": invalid syntax`,
		"01":         `strconv.ParseUint: parsing "01": invalid syntax`,
		"00":         `strconv.ParseUint: parsing "00": invalid syntax`,
		"4294967296": `strconv.ParseUint: parsing "4294967296": value out of range`,
	}
	r := &recorder{}
	tried := 0
	for _, e := range endpoints(t, groups(r)) {
		fd := e.desc.Input().Fields().ByName("diskID")
		if fd == nil {
			fd = e.desc.Input().Fields().ByName("disk_id")
		}
		if fd == nil {
			continue
		}
		tried++
		for value, reason := range values {
			r.method = ""
			m := e.request.New()
			m.Set(fd, protoreflect.ValueOfString(value))
			_, err := e.ask(t, m.Interface())
			want := texts[e.method.MethodName]
			if strings.Contains(want, "%s") {
				want = fmt.Sprintf(want, e.Version)
			}
			want += reason
			if err == nil || err.Error() != want {
				t.Errorf("%s(%q): error %v, want %q", e, value, err, want)
			}
			if !errors.Is(err, hosterr.ErrInvalid) {
				t.Errorf("%s(%q): error %v is not ErrInvalid", e, value, err)
			}
			if r.method != "" {
				t.Errorf("%s(%q) called %s", e, value, r.method)
			}
		}
		m := e.request.New()
		m.Set(fd, protoreflect.ValueOfString("4294967295"))
		if _, err := e.ask(t, m.Interface()); err != nil {
			t.Errorf("%s(4294967295): %v", e, err)
		} else if got := leavesOfStruct(r.got)["disknumber"]; got != "4294967295" {
			t.Errorf("%s(4294967295): pkg got disk %s", e, got)
		}
	}
	if tried != 3+2+1+1+3 {
		t.Errorf("tested %d methods with disk numbers as text, want 10", tried)
	}
}

func TestAbsentPortalIsNil(t *testing.T) {
	r := &recorder{}
	tried := 0
	for _, e := range endpoints(t, wire.Groups{ISCSI: groups(r).ISCSI}) {
		if e.desc.Input().Fields().ByName("target_portal") == nil {
			continue
		}
		tried++
		if _, err := e.ask(t, e.request.New().Interface()); err != nil {
			t.Errorf("%s: %v", e, err)
		}
		if got := leavesOfStruct(r.got)["targetportal"]; got != "nil" {
			t.Errorf("%s: pkg got %+v, want a nil portal", e, r.got)
		}
	}
	if tried == 0 {
		t.Error("no method has a portal")
	}
}

func TestNilElementsInResponse(t *testing.T) {
	r := &recorder{fill: func(resp any) {
		switch l := resp.(type) {
		case *iscsi.ListTargetPortalsResponse:
			l.TargetPortals = []*iscsi.TargetPortal{nil, {TargetPort: 1}}
		case *disk.ListDiskIDsResponse:
			l.DiskIDs = map[uint32]*disk.DiskIDs{6: nil}
		}
	}}
	for _, e := range endpoints(t, groups(r)) {
		field := map[string]protoreflect.Name{"ListTargetPortals": "target_portals", "ListDiskIDs": "diskIDs"}[e.method.MethodName]
		if field == "" {
			continue
		}
		out, err := e.ask(t, e.request.New().Interface())
		if err != nil {
			t.Fatalf("%s: %v", e, err)
		}
		switch value := out.Get(e.answer.Descriptor().Fields().ByName(field)); {
		case field == "target_portals":
			if n := value.List().Len(); n != 2 {
				t.Errorf("%s: %d portals, want 2", e, n)
			}
		case value.Map().Len() != 1:
			t.Errorf("%s: %v, want one disk", e, out.Interface())
		case e.Version.String() == "v1beta2": // a disk without identifiers has both keys
			if l := leavesOfMessage(out); len(l) != 3 {
				t.Errorf("%s: %v, want the disk and two empty identifiers", e, l)
			}
		}
	}
}

// FuzzRows sends arbitrary bytes to a row. A row must decode exactly the requests that
// the message of its version decodes, and must not panic.
func FuzzRows(f *testing.F) {
	r := &recorder{fill: func(resp any) { fillStruct(resp, "") }}
	all := endpoints(f, groups(r))
	for i, e := range all {
		b, err := proto.Marshal(e.filled())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint16(i), b)
		f.Add(uint16(i), []byte{0x0a, 0xff})
		f.Add(uint16(i), []byte("\x0a\x02\xff\xfe"))
		f.Add(uint16(i), []byte{0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	}
	f.Fuzz(func(t *testing.T, i uint16, b []byte) {
		e := all[int(i)%len(all)]
		own := e.request.New().Interface()
		ownErr := proto.Unmarshal(b, own)

		var rowErr error
		_, err := e.method.Handler(e.Impl, context.Background(), func(in any) error {
			rowErr = proto.Unmarshal(b, in.(proto.Message))
			return rowErr
		}, nil)
		if (ownErr == nil) != (rowErr == nil) {
			t.Errorf("%s: the row decodes % x with error %v, the version's own message with %v", e, b, rowErr, ownErr)
		}
		if err != nil && rowErr == nil && hosterr.KindOf(err) == nil {
			t.Errorf("%s(%v): error %v has no kind", e, own, err)
		}
	})
}

// Each row calls the check before the service, with the same request.
func TestRowsCallCheck(t *testing.T) {
	var seen any
	var refusal error
	r := &recorder{check: func(request any) error { seen = request; return refusal }}
	for _, e := range endpoints(t, groups(r)) {
		seen, refusal, r.got = nil, nil, nil
		if _, err := e.ask(t, e.filled()); err != nil && !e.lookup() || seen == nil || seen != r.got {
			t.Errorf("%s: the check got %+v, the service %+v, error %v; want the same request", e, seen, r.got, err)
		}
		seen, refusal, r.got = nil, hosterr.Text(hosterr.ErrPermissionDenied, "not here"), nil
		if _, err := e.ask(t, e.filled()); !errors.Is(err, hosterr.ErrPermissionDenied) || err.Error() != forwards[e.method.MethodName]+"not here" || r.got != nil {
			t.Errorf("%s: rejected by the check: error %v, but the service got %+v", e, err, r.got)
		}
	}
}
