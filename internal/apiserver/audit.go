package apiserver

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"
	"unicode"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kubernetes-csi/csi-proxy/v2/internal/inflight"
)

// audit logs a request that changes the node, with its caller and result. It logs every
// request that was carried out or failed. Refused requests, which changed nothing, have
// the same limit as logged failures, so that they do not flood the log.
func (s *Server) audit(ctx context.Context, c change, in any, took time.Duration, code codes.Code) {
	if !s.config.Log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	suppressed := 0
	switch code {
	case codes.InvalidArgument, codes.PermissionDenied, codes.NotFound, codes.Unimplemented:
		var ok bool
		if suppressed, ok = c.refused.allow(); !ok {
			return
		}
	}
	attrs := append(make([]slog.Attr, 0, 9), slog.Uint64("id", inflight.Of(ctx).ID))
	attrs = append(attrs, callerOf(ctx).attrs()...)
	attrs = append(attrs, slog.String("pipe", c.pipe), slog.String("method", c.method), slog.String("target", targetOf(in)),
		slog.String("result", code.String()), slog.Duration("took", took))
	if suppressed > 0 {
		attrs = append(attrs, slog.Int("suppressed", suppressed))
	}
	s.config.Log.LogAttrs(ctx, slog.LevelInfo, "Audit", attrs...)
}

// callerOf returns the process that made a call.
func callerOf(ctx context.Context) *caller {
	if p, ok := peer.FromContext(ctx); ok {
		if c, ok := p.Addr.(*caller); ok {
			return c
		}
	}
	return nil
}

// targetOf returns the fields of a request as text, without secrets. Numbers and booleans
// are always there, because disk 0 is a disk; empty texts are left out. No value can be
// mistaken for another field, or for several lines: docs/reference.md#audit-log has the syntax.
func targetOf(in any) string {
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
