package s3probe

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/aws/smithy-go"
)

// noAnswer is the time after which a probe gave up.
type noAnswer time.Duration

func (d noAnswer) Error() string {
	return fmt.Sprintf("no answer within %v", time.Duration(d).Round(time.Millisecond))
}

// statusOf is the status of the server's answer, 0 if there was none. The SDK makes 500 of an error in a 200.
func statusOf(err error) int {
	var raw *rawAnswer
	if errors.As(err, &raw) {
		return raw.status
	}
	var answer *smithyhttp.ResponseError
	if !errors.As(err, &answer) {
		return 0
	}
	return answer.HTTPStatusCode()
}

func codeOf(err error) string {
	var answer smithy.APIError
	if errors.As(err, &answer) {
		return answer.ErrorCode()
	}
	return ""
}

func isAbsent(err error) bool { return statusOf(err) == http.StatusNotFound }

// hides tells whether an object is not to be seen: S3 answers 403 for what is absent to those who may not list the bucket.
func hides(err error) bool { return isAbsent(err) || mayNotAsk(err) }

// saysNo tells whether the server refused the request as such, rather than being unable to do it now.
func saysNo(err error) bool {
	status := statusOf(err)
	return status >= 400 && status < 500 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout
}

// unknownToIt tells whether the server says that it does not do this at all.
func unknownToIt(err error) bool {
	switch statusOf(err) {
	case http.StatusNotImplemented, http.StatusMethodNotAllowed:
		return true
	}
	return codeOf(err) == "NotImplemented"
}

func mayNotAsk(err error) bool { return statusOf(err) == http.StatusForbidden }

// unexplained is the outcome of a probe that ended with an error it did not expect. What these credentials may not do is
// unknown of the store; a gateway with them lacks it all the same.
func unexplained(err error, needed bool) Outcome {
	switch {
	case unknownToIt(err), saysNo(err) && (needed || !mayNotAsk(err)):
		return Refuses
	}
	return NotMeasured
}

// contrast makes a request that is right and one that is wrong in the point in question. The error is about requests
// that got no answer to judge.
func contrast(right, wrong func() error) (Outcome, string, error) {
	if err := right(); err != nil {
		if unknownToIt(err) || saysNo(err) {
			return Refuses, "a request that is right: " + brief(err), nil
		}
		return NotMeasured, "", err
	}
	err := wrong()
	switch {
	case err == nil:
		return Ignores, "", nil
	case unknownToIt(err):
		return Refuses, brief(err), nil
	case saysNo(err):
		return Honours, brief(err), nil
	}
	return NotMeasured, "", err
}

// brief is an error in a few words: what the server answered, or why there is no answer. It has no URL, which may be a
// presigned one, and no text of the server's beyond its code.
func brief(err error) string {
	if err == nil {
		return ""
	}
	if status := statusOf(err); status != 0 {
		if code := plain(codeOf(err)); code != "" {
			return fmt.Sprintf("%d %s", status, code)
		}
		return fmt.Sprint(status)
	}
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err.Error()
	}
	var op *smithy.OperationError
	if errors.As(err, &op) {
		return op.Err.Error()
	}
	return err.Error()
}

// plain is a word of the server's without what a terminal would obey.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if r > ' ' && r < 0x7f {
			return r
		}
		return -1
	}, s)
	return s[:min(len(s), 60)]
}
