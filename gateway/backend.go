package gateway

import (
	"context"
	"io"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// Leases is what the gateway asks of leases.
type Leases interface {
	Acquire(ctx context.Context, r lease.Request) (*lease.Held, error)
	Renew(ctx context.Context, ref lease.Ref, ttl time.Duration) (*lease.Held, error)
	More(ctx context.Context, ref lease.Ref) (*lease.Held, error)
	Release(ctx context.Context, ref lease.Ref) error
	// Break ends whatever grant is the newest, with a reason that is kept; by is the principal that breaks it.
	Break(ctx context.Context, name, by, reason string) error
	Inspect(ctx context.Context, name string) (*lease.View, error)
	List(ctx context.Context, l lease.Listing) (lease.Page, error)
	// Verify returns nil while the principal may still use the token, else the refusal a write would get.
	Verify(ctx context.Context, name, principal string, token fence.Token) error
}

// Rows is what the gateway asks of rows.
type Rows interface {
	// Row reads a row and its mark in one statement. A row that does not exist is CodeNotFound with its State.
	Row(ctx context.Context, r fence.RowRead) (fence.Row, error)
	// ListRows reads the rows of a table that pass filters, one page of them.
	ListRows(ctx context.Context, q fence.RowQuery) (fence.RowPage, error)
	WriteRow(ctx context.Context, w fence.RowWrite) (fence.Row, error)
	// RowMark reads the mark of a row whether the row exists or not.
	RowMark(ctx context.Context, name fence.RowName) (fence.State, error)
}

// Commits is what the gateway asks of writes of several resources at once.
type Commits interface {
	// Commit carries all writes out, or none. An error about one of them says which in its Write.
	Commit(ctx context.Context, c fence.Commit) (fence.Committed, error)
}

// Objects is what the gateway asks of objects.
type Objects interface {
	Object(ctx context.Context, name fence.ObjectName, by fence.Access) (fence.Object, error)
	// Version reads a state of the object that is kept, by the token under which it was published.
	Version(ctx context.Context, name fence.ObjectName, by fence.Access, version fence.Token) (fence.Object, error)
	// History lists the states of an object that are kept, newest first, behind before (0 is from the present one on).
	History(ctx context.Context, name fence.ObjectName, before fence.Token, limit int) ([]fence.ObjectVersion, error)
	// ListObjects returns a page of the objects of a bucket.
	ListObjects(ctx context.Context, q fence.ObjectQuery) (fence.ObjectPage, error)
	// Open reads length bytes of the object's body from offset.
	Open(ctx context.Context, o fence.Object, offset, length int64) (io.ReadCloser, error)
	// CheckWrite refuses, before the body is read, a write that would be refused anyway. What it returns is the write for
	// WriteObject.
	CheckWrite(ctx context.Context, w fence.ObjectWrite) (fence.ObjectWrite, error)
	WriteObject(ctx context.Context, w fence.ObjectWrite) (fence.Object, error)
	ObjectMark(ctx context.Context, name fence.ObjectName) (fence.State, error)
	// SignUpload lets a client store a body itself, for a commit of the same principal.
	SignUpload(ctx context.Context, w fence.ObjectWrite, valid time.Duration) (fence.Upload, fence.SignedRequest, error)
	// SignRead lets a client read a body from the store itself; ok is false where it cannot.
	SignRead(ctx context.Context, o fence.Object, valid time.Duration) (s fence.SignedRequest, ok bool, err error)
	// Upload stores a body without publishing it, for a commit of the same principal.
	Upload(ctx context.Context, w fence.ObjectWrite) (fence.Upload, error)
}

// Events is what the gateway asks of what happened to leases.
type Events interface {
	// Events returns up to limit events behind a position, oldest first; the empty position is before all that are kept. gone
	// says that events behind the position are kept no more, so that some are missing.
	Events(ctx context.Context, after string, limit int) (found []fence.Event, gone bool, err error)
	// LastEvent returns the position of the newest event.
	LastEvent(ctx context.Context) (string, error)
	// NoteRefusals records writes that were refused, as far as it can.
	NoteRefusals(ctx context.Context, refused []fence.Event) error
}

// Catalogue is what the gateway asks of protected tables, to describe them.
type Catalogue interface {
	// Tables names the protected tables, in an order that is always the same.
	Tables(ctx context.Context) ([]fence.TableName, error)
	// DescribeTables describes those of the tables that still are as they were protected, in their order.
	DescribeTables(ctx context.Context, tables []fence.TableName) ([]fence.TableDescription, error)
}

// Readiness tells whether writes can be served.
type Readiness interface {
	Ready(ctx context.Context) error
}
