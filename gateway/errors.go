package gateway

import (
	"net/http"

	"github.com/fencegate/fencegate/fence"
)

// outcome is how a code is told over HTTP.
type outcome struct {
	status int
	title  string
}

// outcomes is the one table from codes to statuses. A stale token is 412 and not 409, because some clients repeat
// what answers 409; a missing one is 428 (RFC 6585).
var outcomes = map[fence.Code]outcome{
	fence.CodeStaleToken:         {http.StatusPreconditionFailed, "The token is older than one that was granted or accepted since"},
	fence.CodeSpentToken:         {http.StatusPreconditionFailed, "The token was spent on another write of this resource"},
	fence.CodeGrantEnded:         {http.StatusPreconditionFailed, "The grant has ended"},
	fence.CodePreconditionFailed: {http.StatusPreconditionFailed, "A precondition does not hold"},

	fence.CodeUnissuedToken: {http.StatusForbidden, "No grant issued this token"},
	fence.CodeForeignToken:  {http.StatusForbidden, "The grant belongs to somebody else"},
	fence.CodeForbidden:     {http.StatusForbidden, "Not allowed"},

	fence.CodeUnauthenticated: {http.StatusUnauthorized, "Not authenticated"},
	fence.CodeTokenRequired:   {http.StatusPreconditionRequired, "A write needs a token"},

	fence.CodeInvalidToken:     {http.StatusBadRequest, "Malformed token"},
	fence.CodeInvalidRequest:   {http.StatusBadRequest, "Malformed request"},
	fence.CodeChecksumMismatch: {http.StatusBadRequest, "The body does not match its checksum"},

	fence.CodeLeaseHeld:           {http.StatusConflict, "Somebody else holds the lease"},
	fence.CodeLeaseLost:           {http.StatusConflict, "The lease is no longer yours"},
	fence.CodeConstraintViolation: {http.StatusConflict, "A constraint forbids this"},
	fence.CodeWriteSuppressed:     {http.StatusConflict, "The database swallowed the write"},
	fence.CodeUploadExpired:       {http.StatusConflict, "The upload was given up"},

	fence.CodeNotFound:             {http.StatusNotFound, "Not found"},
	fence.CodeMethodNotAllowed:     {http.StatusMethodNotAllowed, "Method not allowed"},
	fence.CodeTooLarge:             {http.StatusRequestEntityTooLarge, "Too large"},
	fence.CodeUnsupportedMediaType: {http.StatusUnsupportedMediaType, "Unsupported media type"},
	fence.CodeRangeNotSatisfiable:  {http.StatusRequestedRangeNotSatisfiable, "Range not satisfiable"},

	fence.CodeRateLimited:      {http.StatusTooManyRequests, "Too many requests"},
	fence.CodeContention:       {http.StatusServiceUnavailable, "Too much contention"},
	fence.CodeOverloaded:       {http.StatusServiceUnavailable, "Overloaded"},
	fence.CodeOutcomeUnknown:   {http.StatusServiceUnavailable, "The outcome is not known"},
	fence.CodeUnavailable:      {http.StatusServiceUnavailable, "Unavailable"},
	fence.CodeStoreUnavailable: {http.StatusBadGateway, "The blob store is unavailable"},
	fence.CodeInternal:         {http.StatusInternalServerError, "Internal error"},
}

func outcomeOf(c fence.Code) outcome {
	if o, ok := outcomes[c]; ok {
		return o
	}
	return outcomes[fence.CodeInternal]
}
