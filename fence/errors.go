package fence

import (
	"errors"
	"fmt"
	"time"
)

// Code names an outcome. Codes are part of the HTTP API and of the SQL function's messages.
type Code string

// The outcomes of a write, a read or a call about a lease.
const (
	CodeAccepted             Code = "accepted"
	CodeReplayed             Code = "replayed"
	CodeStaleToken           Code = "stale-token"
	CodeSpentToken           Code = "spent-token"
	CodeGrantEnded           Code = "grant-ended"
	CodePreconditionFailed   Code = "precondition-failed"
	CodeUnissuedToken        Code = "unissued-token"
	CodeForeignToken         Code = "foreign-token"
	CodeTokenRequired        Code = "token-required"
	CodeInvalidToken         Code = "invalid-token"
	CodeInvalidRequest       Code = "invalid-request"
	CodeChecksumMismatch     Code = "checksum-mismatch"
	CodeUnauthenticated      Code = "unauthenticated"
	CodeForbidden            Code = "forbidden"
	CodeLeaseHeld            Code = "lease-held"
	CodeLeaseLost            Code = "lease-lost"
	CodeConstraintViolation  Code = "constraint-violation"
	CodeWriteSuppressed      Code = "write-suppressed"
	CodeUploadExpired        Code = "upload-expired"
	CodeNotFound             Code = "not-found"
	CodeMethodNotAllowed     Code = "method-not-allowed"
	CodeTooLarge             Code = "too-large"
	CodeUnsupportedMediaType Code = "unsupported-media-type"
	CodeRangeNotSatisfiable  Code = "range-not-satisfiable"
	CodeRateLimited          Code = "rate-limited"
	CodeContention           Code = "contention"
	CodeOverloaded           Code = "overloaded"
	CodeOutcomeUnknown       Code = "outcome-unknown"
	// CodeUnavailable is PostgreSQL or the locker that does not answer, CodeStoreUnavailable the blob store. Both
	// are "unavailable" to a client and differ in their HTTP status.
	CodeUnavailable      Code = "unavailable"
	CodeStoreUnavailable Code = "store-unavailable"
	CodeInternal         Code = "internal"
)

// Retryable reports whether the same request may succeed when it is repeated unchanged.
func (c Code) Retryable() bool {
	switch c {
	case CodeLeaseHeld, CodeRateLimited, CodeContention, CodeOverloaded, CodeUnavailable, CodeStoreUnavailable, CodeOutcomeUnknown:
		return true
	}
	return false
}

// ErrVoid is a certificate that came too late: another grant was certified after the floor was read. The caller
// reads the floor anew, proves its lease, and tries again.
var ErrVoid = errors.New("certificate is void: the lease was granted to somebody else in between")

// Error is an outcome other than success. Unless its code is CodeOutcomeUnknown the attempt changed nothing (I7).
type Error struct {
	Code Code
	// Message says what is wrong, for people. It holds no secret.
	Message string
	// State is what is known of the resource; nil when the error is about no resource, or nothing could be read.
	State *State
	// Token is the token that was sent, 0 if none.
	Token Token
	// Lease, First and Holder describe the newest grant of the lease the token was checked against.
	Lease  string
	First  Token
	Holder string
	// Remaining is how long the lease still runs (CodeLeaseHeld).
	Remaining time.Duration
	// Ended is why the newest grant ended, and EndedBy who ended it, if that was somebody else than its principal.
	Ended   string
	EndedBy string
	// Queue is where the caller stood among those that wait, counted from 1, when it gave up, and Waiting how many waited.
	Queue, Waiting int
	// Field is the column, header, parameter or key part that is wrong.
	Field string
	// Constraint is the name of the violated constraint.
	Constraint string
	// Write is which write of a commit the error is about, counted from 1; 0 if it is about none.
	Write int
	// Err is the cause, for logs.
	Err error
}

// Errorf makes an Error of a code and a message.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Wrap makes an Error of a code and a message that keeps its cause.
func Wrap(code Code, cause error, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Err: cause}
}

// In names the field that is wrong and returns e.
func (e *Error) In(field string) *Error {
	e.Field = field
	return e
}

func (e *Error) Error() string {
	s := string(e.Code) + ": " + e.Message
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of err: CodeAccepted for nil, CodeInternal for an error without one.
func CodeOf(err error) Code {
	if err == nil {
		return CodeAccepted
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternal
}
