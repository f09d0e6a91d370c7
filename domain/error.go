package domain

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"syscall"
)

// Code is the kind of an error. Each transport has one table from these codes to its own.
type Code string

// The codes. A test proves every transport's table complete.
const (
	CodeInvalid         Code = "invalid"
	CodeUnauthenticated Code = "unauthenticated"
	CodeForbidden       Code = "forbidden"
	CodeNotFound        Code = "not_found"
	CodeConflict        Code = "conflict"
	CodeQuota           Code = "quota"
	CodeTooLarge        Code = "too_large"
	CodeRange           Code = "range"
	CodeRate            Code = "rate"
	CodeUnavailable     Code = "unavailable"
	CodeInternal        Code = "internal"
)

// Codes lists every code.
var Codes = []Code{
	CodeInvalid, CodeUnauthenticated, CodeForbidden, CodeNotFound, CodeConflict, CodeQuota,
	CodeTooLarge, CodeRange, CodeRate, CodeUnavailable, CodeInternal,
}

// Error is an error that a caller may see: a sentence that says what is wrong and what to do. Its
// cause is only logged.
type Error struct {
	Code    Code
	Message string
	Field   string // the input field that is wrong, such as tasks[2].key; may be empty
	Line    int    // position in the input, from 1; 0 if unknown
	Column  int    // in characters, from 1
	Wait    int    // seconds to wait before another try, for CodeRate and CodeUnavailable; 0 for a few
	cause   error
}

// Error implements error with the message and the cause, for logs.
func (e *Error) Error() string {
	if e.cause != nil {
		return e.Message + ": " + e.cause.Error()
	}
	return e.Message
}

// Seconds returns how long to wait before another try.
func (e *Error) Seconds() string { return strconv.Itoa(cmp.Or(e.Wait, 5)) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// Errorf returns an Error with a message for people.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: Sprintf(format, args)}
}

// Invalid returns an error about the input's field.
func Invalid(field, format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Field: field, Message: Sprintf(format, args)}
}

// maxEchoed bounds the part of one value that a message repeats, in bytes: callers may send values
// of any length.
const maxEchoed = 200

func Sprintf(format string, args []any) string {
	shown := make([]any, len(args))
	for i, arg := range args {
		shown[i] = arg
		text := reflect.ValueOf(arg)
		if err, ok := arg.(error); ok {
			text = reflect.ValueOf(err.Error())
		}
		if text.Kind() == reflect.String && text.Len() > maxEchoed {
			shown[i] = strings.ToValidUTF8(text.String()[:maxEchoed], "") + "…"
		}
	}
	return fmt.Sprintf(format, shown...)
}

// NotFound says that the caller's workspace has no such thing. Other workspaces' things are not
// found either.
func NotFound(noun string, id any) *Error {
	return Errorf(CodeNotFound, "There is no %s %q in this workspace.", noun, fmt.Sprint(id))
}

// Because sets the cause of the error.
func (e *Error) Because(cause error) *Error {
	e.cause = cause
	return e
}

// DiskFull reports whether err says that a file system is full, or that its owner's disk quota is.
func DiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// AsError returns err as an Error: itself if it is one, CodeUnavailable if a disk is full,
// otherwise CodeInternal with err as the cause.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if DiskFull(err) {
		return Errorf(CodeUnavailable, "The server's storage is full, so nothing can be written to it; free room there, then try again.").Because(err)
	}
	return (&Error{Code: CodeInternal, Message: "Something went wrong on our side. Search the server's log for the request id."}).Because(err)
}

// IsCode reports whether err is an Error of that code.
func IsCode(err error, code Code) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == code
}
