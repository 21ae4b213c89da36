package calls

import (
	"context"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
)

// Request logs a request that changes the node, with its caller and result. What was done
// decides, as the observer of Win32 calls saw it (package inflight), not the answer: a request
// that has changed something has its line whatever its answer is, and so has one whose work
// continues without its caller. Requests that changed nothing, because they were refused or
// because all was as they want it, have the limit of [lines].
func (l *Log) Request(ctx context.Context, in any, took time.Duration, code codes.Code) {
	c := inflight.Of(ctx)
	m := l.methods[c.Method]
	works := c.Works() // before changed, which is final if it does not
	changed := c.Changed()
	// Without an observer every request counts as one that has changed something.
	if !l.Audit || !m.Changes && !changed || !l.Enabled(ctx, slog.LevelInfo) {
		return
	}
	observed := c.Steps != nil
	if observed && !changed && !works && !l.unchanged.allow(c.Process, c.Program) {
		return
	}
	attrs := append(make([]slog.Attr, 0, 9), slog.Uint64("id", c.ID))
	attrs = append(attrs, callerAttrs(c.Process, c.Program)...)
	attrs = append(attrs, slog.String("pipe", m.Pipe), slog.String("method", m.Name),
		slog.String("target", Target(in)), slog.String("result", code.String()), slog.Duration("took", took))
	if observed && (changed || !works) {
		attrs = append(attrs, slog.Bool("changed", changed))
	}
	l.LogAttrs(ctx, slog.LevelInfo, "Audit", attrs...)
}

// secretField matches the names of fields that are never logged: password of SMB, chap_secret and
// MutualChapSecret of iSCSI.
var secretField = regexp.MustCompile(`(?i)password|secret|credential|token`)

// Target returns the fields of a request as text, without secrets. Numbers and booleans
// are always there, because disk 0 is a disk; empty texts are left out. No value can be
// mistaken for another field, or for several lines: docs/run/reference.md#audit-log has the syntax.
func Target(in any) string {
	m, ok := in.(proto.Message)
	if !ok {
		return ""
	}
	var b strings.Builder
	writeFields(&b, "", m.ProtoReflect())
	return b.String()
}

// writeFields writes the fields of a message. Fields of a nested message are prefixed with
// its name.
func writeFields(b *strings.Builder, within string, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		v, name := m.Get(f), within+string(f.Name())
		switch {
		case secretField.MatchString(string(f.Name())), f.IsMap(), f.IsList(),
			f.Kind() == protoreflect.BytesKind,
			f.Kind() == protoreflect.StringKind && v.String() == "",
			f.Message() != nil && !m.Has(f):
			continue
		case f.Message() != nil:
			writeFields(b, name+".", v.Message())
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(name + "=")
		switch f.Kind() {
		case protoreflect.EnumKind:
			b.WriteString(strconv.Itoa(int(v.Enum())))
		case protoreflect.StringKind:
			writeText(b, v.String())
		default:
			b.WriteString(v.String())
		}
	}
}

// maxAuditText is how many bytes of a text an audit line has. The API accepts paths of
// 260 bytes.
const maxAuditText = 1 << 10

// writeText writes a text as it is if that is unambiguous, and otherwise as a Go string.
// The number of bytes left out of a long one follows the quotes, so that a caller cannot
// hide other fields behind it.
func writeText(b *strings.Builder, s string) {
	cut := s
	if len(s) > maxAuditText {
		cut = strings.ToValidUTF8(s[:maxAuditText], "")
	}
	printable := !strings.ContainsFunc(cut, func(r rune) bool { return !unicode.IsPrint(r) })
	switch {
	case cut == s && printable && !strings.ContainsAny(s, " \"'`="):
		b.WriteString(s)
		return
	case printable && strconv.CanBackquote(cut):
		b.WriteString("`" + cut + "`") // the backslashes of a path stay single
	default:
		b.WriteString(strconv.Quote(cut))
	}
	if cut != s {
		b.WriteString("+" + strconv.Itoa(len(s)-len(cut)))
	}
}
