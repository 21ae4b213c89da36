// Package hosterr has the errors of all services. An error says which operation
// failed, on what, why, and of which kind the failure is. Services and hosts
// return these errors, internal/apiserver/failure turns their kind into a gRPC code, and a
// driver in process checks the kind with errors.Is.
package hosterr

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The kinds of errors. An error has at most one kind. An error without a kind is
// a failure of the host that the caller can only report or retry.
var (
	// ErrInvalid means that the request is wrong. Repeating it does not help.
	ErrInvalid = errors.New("invalid argument")
	// ErrNotFound means that the disk, volume, path or other object in the request
	// does not exist.
	ErrNotFound = errors.New("not found")
	// ErrAlreadyExists means that something else exists where the result should go.
	ErrAlreadyExists = errors.New("already exists")
	// ErrPermissionDenied means that Windows or the proxy's policy refuses.
	ErrPermissionDenied = errors.New("permission denied")
	// ErrFailedPrecondition means that the state of the node does not allow the
	// operation. Repeating it does not help until that state changes.
	ErrFailedPrecondition = errors.New("failed precondition")
	// ErrOutOfRange means that a value is well-formed but exceeds a limit.
	ErrOutOfRange = errors.New("out of range")
	// ErrUnavailable means that the operation is not possible now and may succeed
	// when it is repeated.
	ErrUnavailable = errors.New("unavailable")
	// ErrUnimplemented means that this host or version does not support the
	// operation. Such an error also matches [errors.ErrUnsupported].
	ErrUnimplemented error = unimplemented{}
)

type unimplemented struct{}

func (unimplemented) Error() string        { return "not implemented" }
func (unimplemented) Is(target error) bool { return target == errors.ErrUnsupported }

// Kinds returns all kinds.
func Kinds() []error {
	return []error{ErrInvalid, ErrNotFound, ErrAlreadyExists, ErrPermissionDenied,
		ErrFailedPrecondition, ErrOutOfRange, ErrUnavailable, ErrUnimplemented}
}

// Error is an error of an operation on a target.
type Error struct {
	Op     string // the operation, such as "format volume"
	Target string // the volume ID, path or disk number, as shown to people
	Err    error  // why the operation failed
	Hint   string // what the user can do, or ""

	pc uintptr // where it was made
}

// Error returns the operation, the target and the reason, such as
// `format volume "…": not found`. It does not contain the hint.
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

// Unwrap returns e.Err.
func (e *Error) Unwrap() error { return e.Err }

// Wrap returns an [Error] that says that op failed on target with err. It returns
// nil if err is nil.
func Wrap(op, target string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Target: target, Err: err, pc: callerPC()}
}

// WithHint is like [Wrap] and adds a sentence that says what the user can do.
func WithHint(op, target string, err error, hint string) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Target: target, Err: err, Hint: hint, pc: callerPC()}
}

// Quote quotes a path or volume ID for use as a Target. It keeps backslashes as
// they are unless s has characters that must be escaped.
func Quote(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == '"' || r == 0x7f || r == '\uFFFD' }) {
		return strconv.Quote(s)
	}
	return `"` + s + `"`
}

// text is an error with a fixed message: published drivers match some messages
// literally.
type text struct {
	kind  error
	msg   string
	cause error
	hint  string
	pc    uintptr
}

func (t *text) Error() string   { return t.msg }
func (t *text) Unwrap() []error { return []error{t.kind, t.cause} }

// Text returns an error of the given kind whose message is exactly the formatted
// text. Errors formatted with %w can be found with errors.Is.
func Text(kind error, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &text{kind: kind, msg: err.Error(), cause: err, pc: callerPC()}
}

// TextWithHint is like [Text] and adds a sentence that says what the user can do. The hint is
// not part of the message.
func TextWithHint(kind error, hint, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &text{kind: kind, msg: err.Error(), cause: err, hint: hint, pc: callerPC()}
}

// KindOf returns the kind of err, or nil if it has none.
func KindOf(err error) error {
	for _, k := range Kinds() {
		if errors.Is(err, k) {
			return k
		}
	}
	return nil
}

// SourceOf returns the program counter of the place that made the innermost error of err by this
// package, as in [log/slog.Record], or 0 if there is none. For an error of Windows it is where
// the operation was asked for, not where its number got a kind.
func SourceOf(err error) uintptr {
	var pc uintptr
	switch e := err.(type) {
	case *Error:
		pc = e.pc
	case *text:
		pc = e.pc
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := SourceOf(e.Unwrap()); inner != 0 {
			pc = inner
		}
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if inner := SourceOf(one); inner != 0 {
				return inner
			}
		}
	}
	return pc
}

// HintOf returns the outermost hint of err, or "".
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
