package pgstore

import (
	"fmt"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// codeBindingChanged is a verdict about the caller's idea of a table, never shown to a client.
const codeBindingChanged fence.Code = "binding-changed"

// verdictColumns are the fields of fence.verdict v as verdict scans them.
const verdictColumns = "v.code, v.resource, v.lease, v.mark, v.marked_by, v.written_at, v.created, v.first_token, v.holder"

// verdict is fence.verdict. Its fields are null where nothing is known.
type verdict struct {
	code, resource, lease *string
	mark                  *int64
	markedBy              *string
	writtenAt             *time.Time
	created               *bool
	firstToken            *int64
	holder                *string
}

func (v *verdict) dest() []any {
	return []any{&v.code, &v.resource, &v.lease, &v.mark, &v.markedBy, &v.writtenAt, &v.created, &v.firstToken, &v.holder}
}

func (v *verdict) Code() fence.Code { return fence.Code(deref(v.code)) }

func (v *verdict) State() fence.State {
	return fence.State{
		Resource: deref(v.resource), Lease: deref(v.lease), Mark: fence.Token(deref(v.mark)),
		MarkedBy: deref(v.markedBy), WrittenAt: deref(v.writtenAt),
	}
}

// err is the refusal that the verdict is, nil when it is accepted or replayed.
func (v *verdict) err(by fence.Access) error {
	code := v.Code()
	if code == fence.CodeAccepted || code == fence.CodeReplayed {
		return nil
	}
	return v.refusal(code, by, refusalText(code, by.Token, v))
}

// refusal makes an error that tells what the verdict knows.
func (v *verdict) refusal(code fence.Code, by fence.Access, message string) *fence.Error {
	e := &fence.Error{Code: code, Message: message}
	v.describe(e, by)
	return e
}

// describe adds what the verdict knows to an error.
func (v *verdict) describe(e *fence.Error, by fence.Access) {
	e.Token = by.Token
	e.Lease = deref(v.lease)
	e.First = fence.Token(deref(v.firstToken))
	e.Holder = deref(v.holder)
	if v.resource != nil {
		state := v.State()
		e.State = &state
	}
}

func refusalText(code fence.Code, token fence.Token, v *verdict) string {
	lease, first, mark := deref(v.lease), deref(v.firstToken), deref(v.mark)
	switch code {
	case fence.CodeStaleToken:
		if int64(token) < first {
			return fmt.Sprintf("token %d is older than the newest grant of lease %q, which begins at %d", token, lease, first)
		}
		return fmt.Sprintf("token %d is below the mark %d", token, mark)
	case fence.CodeSpentToken:
		return fmt.Sprintf("token %d has been spent on this resource by another request: spend the next one", token)
	case fence.CodeUnissuedToken:
		if first == 0 {
			return fmt.Sprintf("lease %q was never granted", lease)
		}
		return fmt.Sprintf("token %d is in no block of the newest grant of lease %q", token, lease)
	case fence.CodeForeignToken:
		return fmt.Sprintf("token %d belongs to another principal", token)
	case fence.CodeGrantEnded:
		return fmt.Sprintf("the grant of token %d has ended", token)
	case fence.CodePreconditionFailed:
		return fmt.Sprintf("the mark is %d", mark)
	case fence.CodeNotFound:
		return "nothing protects this, so it does not exist here"
	}
	return string(code)
}

func deref[T any](p *T) (zero T) {
	if p == nil {
		return zero
	}
	return *p
}

// tokenArg, digestArg and tokensArg are SQL arguments: null where nothing was given.
func tokenArg(t fence.Token) *int64 {
	if t == 0 {
		return nil
	}
	n := int64(t)
	return &n
}

func digestArg(d fence.Digest) []byte {
	if d == (fence.Digest{}) {
		return nil
	}
	return d[:]
}

func tokensArg(list []fence.Token) []int64 {
	if list == nil {
		return nil
	}
	out := make([]int64, len(list))
	for i, t := range list {
		out[i] = int64(t)
	}
	return out
}

// conditionText is the condition as part of a request's digest.
func conditionText(c fence.Condition) string {
	if len(c.Match)+len(c.NoneMatch) == 0 && !c.Exists && !c.Absent {
		return "match=[] none=[] exists=false absent=false" // what follows says so, too, and takes its time
	}
	return fmt.Sprintf("match=%v none=%v exists=%t absent=%t", c.Match, c.NoneMatch, c.Exists, c.Absent)
}
