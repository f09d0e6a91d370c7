package domain

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Code is the kind of an error; each transport has one table from codes to its own.
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

// Error is an error that a caller may see: what is wrong and what to do, in a sentence. Its cause is logged and never leaves.
type Error struct {
	Code    Code
	Message string
	Field   string // of the input that is wrong, such as tasks[2].key; may be empty
	Line    int    // position in the input, from 1; 0 where there is none
	Column  int    // in characters, from 1
	cause   error
}

// Error implements error with the message and the cause, for logs.
func (e *Error) Error() string {
	if e.cause != nil {
		return e.Message + ": " + e.cause.Error()
	}
	return e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// Errorf makes an Error with a message for people.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: sprintf(format, args)}
}

// Invalid is an error of the input's field.
func Invalid(field, format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Field: field, Message: sprintf(format, args)}
}

// maxEchoed bounds how much of one value a message repeats, in bytes: a caller may have sent any length of it.
const maxEchoed = 200

func sprintf(format string, args []any) string {
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

// NotFound says that there is no such thing in the caller's workspace: another workspace's things are not found either.
func NotFound(noun string, id any) *Error {
	return Errorf(CodeNotFound, "There is no %s %q in this workspace.", noun, fmt.Sprint(id))
}

// Because adds the cause to an error of ours.
func (e *Error) Because(cause error) *Error {
	e.cause = cause
	return e
}

// AsError returns err as an Error: itself where it is one, else an internal one with err as the cause.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return (&Error{Code: CodeInternal, Message: "Something went wrong on our side. The request id leads to it in the server's log."}).Because(err)
}

// IsCode says whether err is an Error of that code.
func IsCode(err error, code Code) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Code == code
}
