// Package hosterr says what was being done to what when something failed, and
// of which kind the failure is. Errors are data here: services and hosts build
// them, the edge (internal/apiserver) turns the kind into a gRPC code, and a
// driver in process asks with errors.Is.
package hosterr

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The kinds. An error is of at most one of them; one of none is a failure of
// the host that the caller can only report or retry.
var (
	// ErrInvalid: the request itself is wrong and will be wrong next time.
	ErrInvalid = errors.New("invalid argument")
	// ErrNotFound: the disk, volume, path or other named thing is not there.
	ErrNotFound = errors.New("not found")
	// ErrAlreadyExists: something else is where the result should go.
	ErrAlreadyExists = errors.New("already exists")
	// ErrPermissionDenied: Windows or the proxy's policy refuses.
	ErrPermissionDenied = errors.New("permission denied")
	// ErrFailedPrecondition: the node is not in a state in which this may be
	// done; somebody has to change something first.
	ErrFailedPrecondition = errors.New("failed precondition")
	// ErrOutOfRange: the value is well-formed and beyond what the thing allows.
	ErrOutOfRange = errors.New("out of range")
	// ErrUnavailable: in the way now, may work when repeated.
	ErrUnavailable = errors.New("unavailable")
	// ErrUnimplemented: this host or version cannot do it at all. Such an error is
	// an [errors.ErrUnsupported], too.
	ErrUnimplemented error = unimplemented{}
)

type unimplemented struct{}

func (unimplemented) Error() string        { return "not implemented" }
func (unimplemented) Is(target error) bool { return target == errors.ErrUnsupported }

// Kinds lists the kinds, for tables that must name each of them.
func Kinds() []error {
	return []error{ErrInvalid, ErrNotFound, ErrAlreadyExists, ErrPermissionDenied,
		ErrFailedPrecondition, ErrOutOfRange, ErrUnavailable, ErrUnimplemented}
}

// Error says what was being done to what when Err happened.
type Error struct {
	Op     string // "format volume"
	Target string // the volume ID, the path, the disk number, as a person reads it
	Err    error
	Hint   string // what to do about it; empty when there is nothing to add
}

// Error is "format volume "…": the reason". The hint is not part of it.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Op)
	if e.Target != "" {
		b.WriteByte(' ')
		b.WriteString(e.Target)
	}
	b.WriteString(": ")
	b.WriteString(e.Err.Error())
	return b.String()
}

// Unwrap is the reason.
func (e *Error) Unwrap() error { return e.Err }

// Wrap says that err happened while op was being done to target. It is nil for
// a nil err, so a function can end with it.
func Wrap(op, target string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Target: target, Err: err}
}

// WithHint is Wrap with a sentence that tells what to do about it.
func WithHint(op, target string, err error, hint string) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Target: target, Err: err, Hint: hint}
}

// Quote is a path or volume ID as a Target: in double quotes, with backslashes
// as they are.
func Quote(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == '"' || r == 0x7f || r == '\uFFFD' }) {
		return strconv.Quote(s)
	}
	return `"` + s + `"`
}

// text is an error whose message is exactly as given; published drivers match
// some messages literally.
type text struct {
	kind  error
	msg   string
	cause error
	hint  string
}

func (t *text) Error() string   { return t.msg }
func (t *text) Unwrap() []error { return []error{t.kind, t.cause} }

// Text is an error of a kind whose message is exactly the formatted text. An
// error among the args of a %w verb stays reachable for errors.Is.
func Text(kind error, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &text{kind: kind, msg: err.Error(), cause: err}
}

// TextWithHint is [Text] with a sentence that says what to do about it. The hint is
// not part of the message.
func TextWithHint(kind error, hint, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &text{kind: kind, msg: err.Error(), cause: err, hint: hint}
}

// KindOf is the kind of err, or nil when it has none.
func KindOf(err error) error {
	for _, k := range Kinds() {
		if errors.Is(err, k) {
			return k
		}
	}
	return nil
}

// HintOf is the hint nearest to the surface of err, or "".
func HintOf(err error) string {
	switch e := err.(type) {
	case nil:
		return ""
	case *Error:
		if e.Hint != "" {
			return e.Hint
		}
	case *text:
		if e.hint != "" {
			return e.hint
		}
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return HintOf(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			if hint := HintOf(inner); hint != "" {
				return hint
			}
		}
	}
	return ""
}
