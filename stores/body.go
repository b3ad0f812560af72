package stores

import (
	"context"
	"errors"
	"io"

	"github.com/fencegate/fencegate/fence"
)

// Body is a body on its way into a blob store. It fails unless the body has exactly the announced size, stops once
// its context ends, and remembers why reading stopped, so that an error of whoever sends the body can be told from
// one of the store. It cannot interrupt a Read that blocks: whoever owns the connection bounds that.
type Body struct {
	// ctx is kept because io.Reader has no room for one; it lives as long as one Put.
	ctx  context.Context
	r    io.Reader
	size int64
	n    int64
	err  error
}

// NewBody wraps r, which is size bytes long (-1: unknown). A nil r is an empty body.
func NewBody(ctx context.Context, r io.Reader, size int64) *Body {
	b := &Body{ctx: ctx, r: r, size: size}
	if r == nil {
		b.finish(io.EOF)
	}
	return b
}

// Read reads the body. A body of another size is fence.CodeInvalidRequest.
func (b *Body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.ctx.Err() != nil {
		b.err = context.Cause(b.ctx)
		return 0, b.err
	}
	n, err := b.r.Read(p)
	b.n += int64(n)
	if b.size >= 0 && b.n > b.size {
		b.err = fence.Errorf(fence.CodeInvalidRequest, "the body is longer than the %d bytes it was said to have", b.size)
		return 0, b.err
	}
	if err != nil {
		b.finish(err)
	}
	return n, b.err
}

func (b *Body) finish(err error) {
	b.err = err
	if err == io.EOF && b.size > b.n {
		b.err = fence.Errorf(fence.CodeInvalidRequest, "the body ended after %d of %d bytes", b.n, b.size)
	}
}

// End expects the end of the body, and returns an error if there is more of it or it ends in an error.
func (b *Body) End() error {
	var more [1]byte
	_, err := io.ReadFull(b, more[:])
	switch {
	case err == nil:
		return errUnread
	case err == io.EOF:
		return nil
	}
	return err
}

var errUnread = errors.New("the body was not read to its end")

// Len returns how many bytes were read so far.
func (b *Body) Len() int64 { return b.n }

// Ended reports whether the body was read to its end.
func (b *Body) Ended() bool { return b.err == io.EOF }

// Err returns why the body cannot be read any more; nil while it can, and after its end.
func (b *Body) Err() error {
	if b.err == io.EOF {
		return nil
	}
	return b.err
}
