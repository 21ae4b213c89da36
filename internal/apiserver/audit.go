package apiserver

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// audit logs a request that changes the node, with its caller and result. It logs every
// request that was carried out or failed. Of refused ones, which changed nothing, it logs
// as many as failures are logged, so that they do not flood the log.
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
	attrs := append(make([]slog.Attr, 0, 8), callerOf(ctx).attrs()...)
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
// are always there, because disk 0 is a disk; empty texts are left out.
func targetOf(in any) string {
	m, ok := in.(proto.Message)
	if !ok {
		return ""
	}
	var b strings.Builder
	writeFields(&b, m.ProtoReflect())
	return limited(b.String())
}

func writeFields(b *strings.Builder, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		v := m.Get(f)
		switch {
		case secretField.MatchString(string(f.Name())), f.IsMap(), f.IsList(),
			f.Kind() == protoreflect.BytesKind,
			f.Kind() == protoreflect.StringKind && v.String() == "",
			f.Message() != nil && !m.Has(f):
			continue
		}
		if b.Len() > 0 && !strings.HasSuffix(b.String(), "{") {
			b.WriteByte(' ')
		}
		b.WriteString(string(f.Name()))
		b.WriteByte('=')
		switch {
		case f.Message() != nil:
			b.WriteByte('{')
			writeFields(b, v.Message())
			b.WriteByte('}')
		case f.Kind() == protoreflect.EnumKind:
			b.WriteString(strconv.Itoa(int(v.Enum())))
		default:
			b.WriteString(v.String())
		}
	}
}
