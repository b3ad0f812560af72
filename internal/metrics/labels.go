package metrics

import (
	"strings"

	"github.com/fencegate/fencegate/fence"
)

// other is the label of whatever has no value of its own.
const other = "other"

// outcomeOf is the label of a code.
func outcomeOf(c fence.Code) string {
	switch c {
	case "":
		return "client-left"
	case fence.CodeAccepted, fence.CodeReplayed,
		fence.CodeStaleToken, fence.CodeSpentToken, fence.CodeGrantEnded, fence.CodePreconditionFailed,
		fence.CodeUnissuedToken, fence.CodeForeignToken, fence.CodeTokenRequired,
		fence.CodeInvalidToken, fence.CodeInvalidRequest, fence.CodeChecksumMismatch,
		fence.CodeUnauthenticated, fence.CodeForbidden, fence.CodeLeaseHeld, fence.CodeLeaseLost,
		fence.CodeConstraintViolation, fence.CodeWriteSuppressed, fence.CodeUploadExpired,
		fence.CodeNotFound, fence.CodeMethodNotAllowed, fence.CodeTooLarge, fence.CodeUnsupportedMediaType,
		fence.CodeRangeNotSatisfiable, fence.CodeRateLimited, fence.CodeContention, fence.CodeOverloaded,
		fence.CodeOutcomeUnknown, fence.CodeUnavailable, fence.CodeStoreUnavailable, fence.CodeInternal:
		return string(c)
	}
	return other
}

// resultOf is coarser, for histograms: who was at fault tells whether a duration means anything.
func resultOf(c fence.Code) string {
	switch c {
	case fence.CodeAccepted, fence.CodeReplayed:
		return "accepted"
	case fence.CodeContention, fence.CodeOverloaded, fence.CodeOutcomeUnknown, fence.CodeUnavailable, fence.CodeStoreUnavailable, fence.CodeInternal:
		return "failed"
	case "":
		return "client-left"
	}
	return "refused"
}

// oneOf is the label of a value that comes from elsewhere.
func oneOf(value string, known ...string) string {
	for _, k := range known {
		if value == k {
			return k
		}
	}
	return other
}

func apiOf(api string) string {
	return oneOf(api, "leases", "rows", "objects", "marks", "events", "commit", "uploads", "openapi")
}

// apiOfPath is the API that a path belongs to.
func apiOfPath(path string) string {
	rest, found := strings.CutPrefix(path, "/v1/")
	switch {
	case path == "/openapi.json":
		return "openapi"
	case !found:
		return other
	}
	api, _, _ := strings.Cut(rest, "/")
	return apiOf(api)
}

func callOf(op string) string {
	return oneOf(op, "acquire", "renew", "tokens", "release", "inspect", "verify", "break", "list")
}

func verbOf(op string) string {
	return oneOf(op, "patch", "put", "copy", "delete", "insert", "commit", "upload")
}
