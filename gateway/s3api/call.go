package s3api

import (
	"context"
	"net/http"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway"
)

type callKey struct{}

// stateTimeout bounds the look at an object whose write is refused for other reasons.
const stateTimeout = time.Second

// call is one request on its way.
type call struct {
	*Front
	w http.ResponseWriter
	r *http.Request
	// arrived is the request as it came to the front. Its Pattern tells whoever made it which operation it is.
	arrived *http.Request
	began   time.Time
	body    *body

	// caller is nil before authentication; signed are the headers that its signature covers, which stands in the URL of what is presigned.
	caller    gateway.Caller
	signed    []string
	presigned bool
	// op and verb are those of its route, empty before authentication.
	op   string
	verb gateway.Verb
	name fence.ObjectName
	// err is why the request is refused; replayed tells an answer that is given again.
	err      error
	replayed bool
	// answered is set once the header of the answer is sent, left when the client did not wait for its end.
	answered, left bool
}

// callOf returns the call that a context of versitygw's belongs to.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// begin says what the call is about, and asks whether the caller may, now and so often.
func (c *call) begin(bucket, key string) error {
	c.name = fence.ObjectName{Bucket: bucket, Key: key}
	if err := fence.CheckObjectKey(key); err != nil {
		return err
	}
	if err := c.may(c.verb, c.name); err != nil {
		return err
	}
	return c.admit()
}

// beginList is begin for what concerns several objects, those whose keys begin with prefix.
func (c *call) beginList(bucket, prefix string) error {
	c.name = fence.ObjectName{Bucket: bucket}
	if len(prefix) > fence.MaxObjectKey {
		return fence.Errorf(fence.CodeInvalidRequest, "prefix has at most %d bytes", fence.MaxObjectKey).In("prefix")
	}
	if c.caller == nil || !c.caller.MayBelow(gateway.Action{Verb: c.verb, Bucket: bucket, Key: prefix}) {
		return fence.Errorf(fence.CodeForbidden, "this principal may not %s anything in %s below %.200q", c.verb, bucket, prefix)
	}
	return c.admit()
}

func (c *call) may(verb gateway.Verb, name fence.ObjectName) error {
	if c.caller == nil || !c.caller.May(gateway.Action{Verb: verb, Bucket: name.Bucket, Key: name.Key}) {
		return fence.Errorf(fence.CodeForbidden, "this principal may not %s the object %s/%s", verb, name.Bucket, name.Key)
	}
	return nil
}

// admit counts the request.
func (c *call) admit() error {
	class := gateway.ClassReads
	if c.verb == gateway.VerbWrite {
		class = gateway.ClassWrites
	}
	return c.cfg.Shared.Admit(c.r.Context(), class, c.caller.Principal())
}

// access is who sends the request and with which token, if any.
func (c *call) access() (fence.Access, error) {
	t, err := tokenOf(c.r, c.signed)
	return fence.Access{Principal: c.caller.Principal(), Token: t, As: c.caller.Identity()}, err
}

// writeAccess is access for a write, which needs a token.
func (c *call) writeAccess() (fence.Access, error) {
	a, err := c.access()
	if err == nil && a.Token == 0 {
		err = c.noToken(a)
	}
	return a, err
}

// noToken refuses a write without a token. Tools show nothing but the message, so it names the lease, if that can be had.
func (c *call) noToken(by fence.Access) error {
	ctx, cancel := context.WithTimeout(c.r.Context(), stateTimeout)
	defer cancel()
	o, err := c.cfg.Objects.Object(ctx, c.name, by)
	if found := asError(err); found != nil && found.State != nil {
		o.State = *found.State
	}
	return errNoToken(o.State)
}

// detached is the context of a write: the client's disconnect does not cancel it, a deadline of its own does.
func (c *call) detached(limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(c.r.Context()), limit)
}

// readBody makes the request's body that of an object, which may take longer, and returns what ends it.
func (c *call) readBody() {
	c.body.object = true
	_ = http.NewResponseController(c.w).SetReadDeadline(time.Now().Add(c.cfg.UploadLimit))
}

// done tells of an object that was written.
func (c *call) done(o fence.Object) {
	c.replayed = o.Replayed
	gateway.SetLease(c.w.Header(), o.Lease)
	c.w.Header().Set(headerToken, o.Mark.String())
}
