package calls

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	iscsi "github.com/kubernetes-csi/csi-proxy/client/api/iscsi/v1alpha2"
)

// FuzzAuditTarget: a target can be parsed back into its request, so no value of a caller
// looks like another field, another line or another request.
func FuzzAuditTarget(f *testing.F) {
	f.Add("10.0.0.1", uint32(3260), "iqn.1991-05.com.microsoft:disk", int32(1), "user")
	f.Add(`C:\with blank\x iqn=other`, uint32(0), "a\nAudit caller=1", int32(0), "\"`\\\u2028\u202e{}=\t")
	f.Add("''", uint32(30), "'x'", int32(-101), "don't") // Go's syntax has runes in single quotes
	f.Add("}", uint32(1), strings.Repeat("é", maxAuditText), int32(-1), "`+1")
	f.Fuzz(func(t *testing.T, address string, port uint32, iqn string, auth int32, user string) {
		in := &iscsi.ConnectTargetRequest{
			TargetPortal: &iscsi.TargetPortal{TargetAddress: strings.ToValidUTF8(address, "?"), TargetPort: port},
			Iqn:          strings.ToValidUTF8(iqn, "?"), AuthType: iscsi.AuthenticationType(auth), ChapUsername: strings.ToValidUTF8(user, "?"),
			ChapSecret: "hunter2",
		}
		target := Target(in)
		got := &iscsi.ConnectTargetRequest{}
		if err := readFields(target, got.ProtoReflect()); err != nil {
			t.Fatalf("target %q: %v", target, err)
		}
		want := proto.Clone(in).(*iscsi.ConnectTargetRequest)
		want.ChapSecret = ""
		for _, text := range []*string{&want.TargetPortal.TargetAddress, &want.Iqn, &want.ChapUsername} {
			*text = shortened(*text)
		}
		if !proto.Equal(got, want) {
			t.Errorf("target %q\nreads as %v\nwant     %v", target, got, want)
		}
		if strings.ContainsAny(target, "\r\n") {
			t.Errorf("target %q has several lines", target)
		}
	})
}

// shortened returns the part of a text that a line has, with the number of missing bytes.
func shortened(s string) string {
	if len(s) <= maxAuditText {
		return s
	}
	cut := strings.ToValidUTF8(s[:maxAuditText], "")
	return cut + fmt.Sprintf("… and %d bytes", len(s)-len(cut))
}

// readFields sets the fields of a message that a target has.
func readFields(s string, m protoreflect.Message) error {
	for s != "" {
		name, value, ok := strings.Cut(s, "=")
		if !ok || value == "" {
			return fmt.Errorf("no field in %q", s)
		}
		text, rest, err := readText(value)
		if err != nil {
			return err
		}
		if s = rest; s != "" && (s[0] != ' ' || len(s) == 1) {
			return fmt.Errorf("no blank and field in %q", s)
		}
		s = strings.TrimPrefix(s, " ")
		if err := set(m, strings.Split(name, "."), text); err != nil {
			return err
		}
	}
	return nil
}

// readText reads a value, and returns what follows it.
func readText(s string) (text, rest string, err error) {
	quoted, err := strconv.QuotedPrefix(s)
	if err != nil {
		n := strings.IndexByte(s+" ", ' ')
		return s[:n], s[n:], nil
	}
	if text, err = strconv.Unquote(quoted); err != nil {
		return "", "", err
	}
	if rest = s[len(quoted):]; strings.HasPrefix(rest, "+") {
		n := strings.IndexByte(rest+" ", ' ')
		text, rest = text+"… and "+rest[1:n]+" bytes", rest[n:]
	}
	return text, rest, nil
}

// set sets a field of a message, or of a message in it.
func set(m protoreflect.Message, names []string, text string) error {
	f := m.Descriptor().Fields().ByName(protoreflect.Name(names[0]))
	if f == nil || (f.Message() == nil) != (len(names) == 1) {
		return fmt.Errorf("no field %q", names)
	}
	if f.Message() != nil {
		return set(m.Mutable(f).Message(), names[1:], text)
	}
	if m.Has(f) {
		return fmt.Errorf("two fields %q", names)
	}
	v := protoreflect.ValueOfString(text)
	if f.Kind() != protoreflect.StringKind {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return err
		}
		if v = protoreflect.ValueOfUint32(uint32(n)); f.Kind() == protoreflect.EnumKind {
			v = protoreflect.ValueOfEnum(protoreflect.EnumNumber(n))
		}
	}
	m.Set(f, v)
	return nil
}
