package s3api

import (
	"encoding/xml"
	"errors"
	"net/http"
	"strconv"

	"github.com/versity/versitygw/s3err"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
)

// outcome is how a code is told over S3.
type outcome struct {
	code   string
	status int
}

// outcomeOf is the one table from codes to what S3's clients show. They repeat 500, 503 and, some of them, 429 and 409 by themselves, so that
// only what may succeed unchanged has such a status; a missing token is 400, as 428 is unknown to them.
func outcomeOf(c fence.Code) outcome {
	switch c {
	case fence.CodeStaleToken:
		return outcome{"StaleFenceToken", http.StatusPreconditionFailed}
	case fence.CodeSpentToken:
		return outcome{"SpentFenceToken", http.StatusPreconditionFailed}
	case fence.CodeGrantEnded:
		return outcome{"GrantEnded", http.StatusPreconditionFailed}
	case fence.CodePreconditionFailed:
		return outcome{"PreconditionFailed", http.StatusPreconditionFailed}
	case fence.CodeUnissuedToken:
		return outcome{"UnissuedFenceToken", http.StatusForbidden}
	case fence.CodeForeignToken:
		return outcome{"ForeignFenceToken", http.StatusForbidden}
	case fence.CodeForbidden, fence.CodeUnauthenticated:
		return outcome{"AccessDenied", http.StatusForbidden}
	case fence.CodeTokenRequired:
		return outcome{"FenceTokenRequired", http.StatusBadRequest}
	case fence.CodeInvalidToken:
		return outcome{"InvalidFenceToken", http.StatusBadRequest}
	case fence.CodeInvalidRequest, fence.CodeUnsupportedMediaType:
		return outcome{"InvalidRequest", http.StatusBadRequest}
	case fence.CodeChecksumMismatch:
		return outcome{"BadDigest", http.StatusBadRequest}
	case fence.CodeLeaseHeld:
		return outcome{"LeaseHeld", http.StatusConflict}
	case fence.CodeLeaseLost:
		return outcome{"LeaseLost", http.StatusConflict}
	case fence.CodeConstraintViolation, fence.CodeWriteSuppressed:
		return outcome{"OperationAborted", http.StatusConflict}
	case fence.CodeUploadExpired:
		return outcome{"NoSuchUpload", http.StatusNotFound}
	case fence.CodeNotFound:
		return outcome{"NoSuchKey", http.StatusNotFound}
	case fence.CodeMethodNotAllowed:
		return outcome{"MethodNotAllowed", http.StatusMethodNotAllowed}
	case fence.CodeTooLarge:
		return outcome{"EntityTooLarge", http.StatusBadRequest}
	case fence.CodeRangeNotSatisfiable:
		return outcome{"InvalidRange", http.StatusRequestedRangeNotSatisfiable}
	case fence.CodeRateLimited, fence.CodeContention, fence.CodeOverloaded:
		return outcome{"SlowDown", http.StatusServiceUnavailable}
	case fence.CodeOutcomeUnknown, fence.CodeUnavailable, fence.CodeStoreUnavailable:
		return outcome{"ServiceUnavailable", http.StatusServiceUnavailable}
	}
	return outcome{"InternalError", http.StatusInternalServerError}
}

// codeOf is the code of what versitygw itself refused, for the log and the metrics.
func codeOf(e s3err.S3Error) fence.Code {
	switch base := e.BaseError(); {
	case base.HTTPStatusCode == http.StatusForbidden, base.HTTPStatusCode == http.StatusUnauthorized, base.Code == "AuthorizationHeaderMalformed":
		return fence.CodeUnauthenticated
	case base.HTTPStatusCode == http.StatusMethodNotAllowed, base.HTTPStatusCode == http.StatusNotImplemented:
		return fence.CodeMethodNotAllowed
	case base.HTTPStatusCode == http.StatusNotModified:
		return fence.CodeAccepted
	case base.HTTPStatusCode == http.StatusPreconditionFailed:
		return fence.CodePreconditionFailed
	case base.HTTPStatusCode == http.StatusRequestedRangeNotSatisfiable:
		return fence.CodeRangeNotSatisfiable
	case base.HTTPStatusCode == http.StatusNotFound:
		return fence.CodeNotFound
	case base.Code == "BadDigest", base.Code == "XAmzContentSHA256Mismatch":
		return fence.CodeChecksumMismatch
	case base.HTTPStatusCode >= http.StatusInternalServerError:
		return fence.CodeInternal
	}
	return fence.CodeInvalidRequest
}

// fail notes why the call is refused, and returns it as S3 tells it; nil for nil.
func (c *call) fail(err error) error {
	if err == nil {
		return nil
	}
	var theirs s3err.S3Error
	if ours, is := err.(refusal); is {
		c.err = ours.cause
		return ours
	}
	if errors.As(err, &theirs) {
		if code := codeOf(theirs); code != fence.CodeAccepted {
			c.err = fence.Errorf(code, "%s: %s", theirs.BaseError().Code, theirs.BaseError().Description)
		}
		return theirs
	}
	c.err = err
	e := refusal{outcome: outcomeOf(fence.CodeOf(err))}
	if e.cause = asError(err); e.cause == nil {
		e.cause = fence.Errorf(fence.CodeInternal, "the gateway failed; its log has the cause under this request id")
	}
	if noBucket := e.cause.Field == "bucket" || e.cause.State == nil || e.cause.State.Lease == ""; e.cause.Code == fence.CodeNotFound && noBucket {
		e.code = "NoSuchBucket"
	}
	if e.cause.Code.Retryable() {
		c.w.Header().Set("Retry-After", strconv.FormatInt(gateway.RetryAfter(e.cause), 10))
	}
	return e
}

// refusal is the error that the answer with a status is for, when no handler of ours has noted one.
func (c *call) refusal(status int) error {
	if c.err == nil {
		c.err = fence.Errorf(fence.CodeInvalidRequest, "refused with status %d", status)
	}
	return c.err
}

// asError returns the coded error in err, nil if there is none.
func asError(err error) *fence.Error {
	var e *fence.Error
	errors.As(err, &e)
	return e
}

// refusal is an error as S3 tells it.
type refusal struct {
	outcome
	cause *fence.Error
}

var _ s3err.S3Error = refusal{}

// maxMessage bounds what a refusal quotes of a request.
const maxMessage = 1000

func (e refusal) Error() string   { return e.code + ": " + e.cause.Message }
func (e refusal) StatusCode() int { return e.status }
func (e refusal) BaseError() s3err.APIError {
	return s3err.APIError{Code: e.code, Description: e.message(), HTTPStatusCode: e.status}
}

// HTMLBody is for websites, which there are none of.
func (e refusal) HTMLBody(requestID, hostID string) []byte { return e.XMLBody(requestID, hostID) }

func (e refusal) message() string {
	text := e.cause.Message
	if e.cause.Code == fence.CodeOutcomeUnknown {
		text = "It is not known whether this was carried out. Repeat the same request with the same token to learn it: " + text
	}
	if len(text) > maxMessage {
		text = text[:maxMessage]
	}
	return text
}

// XMLBody tells beside what S3 knows what a refusal over HTTP tells.
func (e refusal) XMLBody(requestID, hostID string) []byte {
	answer := struct {
		XMLName   xml.Name `xml:"Error"`
		Code      string
		Message   string
		Resource  string `xml:",omitempty"`
		Field     string `xml:",omitempty"`
		Lease     string `xml:",omitempty"`
		Token     int64  `xml:",omitempty"`
		Mark      *int64 `xml:",omitempty"`
		First     int64  `xml:"FirstToken,omitempty"`
		Holder    string `xml:",omitempty"`
		RequestID string `xml:"RequestId,omitempty"`
		HostID    string `xml:"HostId,omitempty"`
	}{Code: e.code, Message: e.message(), Field: e.cause.Field, Token: int64(e.cause.Token), RequestID: requestID, HostID: hostID}
	if e.cause.Code != fence.CodeForbidden && e.cause.Code != fence.CodeUnauthenticated {
		answer.Lease, answer.First, answer.Holder = e.cause.Lease, int64(e.cause.First), e.cause.Holder
		if s := e.cause.State; s != nil {
			mark := int64(s.Mark)
			answer.Resource, answer.Mark = s.Resource, &mark
			if answer.Lease == "" {
				answer.Lease = s.Lease
			}
		}
	}
	text, err := xml.Marshal(answer)
	if err != nil {
		panic(err) // of a struct of ours
	}
	return append([]byte(xml.Header), text...)
}
