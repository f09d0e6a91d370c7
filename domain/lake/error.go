package lake

import (
	"errors"

	"github.com/millpond/millpond/domain"
)

// Reason is an error's name in the Iceberg REST protocol.
type Reason string

// The reasons. The protocol's names end with "Exception". For an error without a reason,
// domain.Code decides.
const (
	NoSuchWarehouse     Reason = "NoSuchWarehouse"     // CodeNotFound
	NoSuchNamespace     Reason = "NoSuchNamespace"     // CodeNotFound
	NoSuchTable         Reason = "NoSuchTable"         // CodeNotFound
	NoSuchView          Reason = "NoSuchView"          // CodeNotFound
	NoSuchFile          Reason = "NotFound"            // CodeNotFound: a metadata file
	AlreadyExists       Reason = "AlreadyExists"       // CodeConflict
	NamespaceNotEmpty   Reason = "NamespaceNotEmpty"   // CodeConflict
	CommitFailed        Reason = "CommitFailed"        // CodeConflict: read again, and try again
	CommitStateUnknown  Reason = "CommitStateUnknown"  // CodeUnavailable: the commit may have happened
	UnprocessableEntity Reason = "UnprocessableEntity" // CodeInvalid, and 422 in the protocol
)

// Error is a domain.Error with a Reason.
type Error struct {
	Reason Reason
	err    *domain.Error
}

// Error implements error.
func (e *Error) Error() string { return string(e.Reason) + ": " + e.err.Error() }

// Unwrap returns the domain.Error, which every transport understands.
func (e *Error) Unwrap() error { return e.err }

// ReasonOf returns the reason of an error, or "" if it has no reason.
func ReasonOf(err error) Reason {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Reason
	}
	return ""
}

var reasonCodes = map[Reason]domain.Code{
	NoSuchWarehouse: domain.CodeNotFound, NoSuchNamespace: domain.CodeNotFound, NoSuchTable: domain.CodeNotFound, NoSuchView: domain.CodeNotFound,
	NoSuchFile: domain.CodeNotFound, AlreadyExists: domain.CodeConflict, NamespaceNotEmpty: domain.CodeConflict, CommitFailed: domain.CodeConflict,
	CommitStateUnknown: domain.CodeUnavailable, UnprocessableEntity: domain.CodeInvalid,
}

func failed(r Reason, format string, args ...any) *Error {
	return &Error{Reason: r, err: domain.Errorf(reasonCodes[r], format, args...)}
}

func (e *Error) because(cause error) *Error {
	e.err = e.err.Because(cause)
	return e
}
