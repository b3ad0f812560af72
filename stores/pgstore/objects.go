package pgstore

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
)

// Object reads an object's pointer and mark in one statement. An object that does not exist is CodeNotFound with its
// State.
func (s *Store) Object(ctx context.Context, name fence.ObjectName, by fence.Access) (fence.Object, error) {
	v, o, err := s.object(ctx, name, by)
	if err != nil {
		return fence.Object{}, err
	}
	if err := v.err(by); err != nil {
		return fence.Object{}, err
	}
	if o.Blob == "" {
		return fence.Object{}, v.refusal(fence.CodeNotFound, by, "there is no such object")
	}
	return o, nil
}

// ObjectMark reads the mark of an object whether the object exists or not.
func (s *Store) ObjectMark(ctx context.Context, name fence.ObjectName) (fence.State, error) {
	v, _, err := s.object(ctx, name, fence.Access{})
	if err != nil {
		return fence.State{}, err
	}
	return v.State(), v.err(fence.Access{})
}

// CheckWrite refuses a write that would be refused anyway, before its body is read. It says nothing about a write whose
// token is the mark: it may be a replay, which only its body can tell.
func (s *Store) CheckWrite(ctx context.Context, w fence.ObjectWrite) error {
	v, o, err := s.object(ctx, w.Object, w.Access)
	if err != nil {
		return err
	}
	mark := fence.Token(deref(v.mark))
	if v.Code() != fence.CodeNotFound && mark == w.Token {
		return nil
	}
	if err := v.err(w.Access); err != nil {
		return err
	}
	switch {
	case w.Token < mark:
		return v.refusal(fence.CodeStaleToken, w.Access, refusalText(fence.CodeStaleToken, w.Token, &v))
	case !w.If.Holds(mark):
		return v.refusal(fence.CodePreconditionFailed, w.Access, refusalText(fence.CodePreconditionFailed, w.Token, &v))
	case w.If.Absent && o.Blob != "":
		return v.refusal(fence.CodePreconditionFailed, w.Access, "the object exists")
	case w.If.Exists && o.Blob == "":
		return v.refusal(fence.CodePreconditionFailed, w.Access, "the object does not exist")
	}
	return nil
}

// PutObject admits the write and flips the pointer to the blob, whose intent must be pending.
func (s *Store) PutObject(ctx context.Context, w fence.ObjectWrite, blob fence.Blob) (fence.Object, error) {
	header, err := json.Marshal(w.Header)
	if err != nil {
		return fence.Object{}, fence.Wrap(fence.CodeInvalidRequest, err, "the object's headers cannot be kept")
	}
	digest := fence.DigestOf("object", string(w.Op), conditionText(w.If), string(header), string(blob.SHA256[:]))
	return s.writeObject(ctx, w, digest, "SELECT fence.put_object($1, $2, $3, $4, $5, $6, $7, $8, $9)",
		w.Object.Bucket, w.Object.Key, int64(w.Token), blob.ID, blob.Size, blob.SHA256[:], string(header), w.If.Exists, w.If.Absent)
}

// DeleteObject admits the delete and hides the object.
func (s *Store) DeleteObject(ctx context.Context, w fence.ObjectWrite) (fence.Object, error) {
	digest := fence.DigestOf("object", string(w.Op), conditionText(w.If))
	return s.writeObject(ctx, w, digest, "SELECT fence.delete_object($1, $2, $3, $4)", w.Object.Bucket, w.Object.Key, int64(w.Token), w.If.Absent)
}

func (s *Store) writeObject(ctx context.Context, w fence.ObjectWrite, digest fence.Digest, change string, args ...any) (fence.Object, error) {
	var (
		v       verdict
		changed *bool
		row     objectRow
	)
	err := s.retry(ctx, func(ctx context.Context) error {
		batch := &pgx.Batch{}
		batch.Queue("SELECT "+verdictColumns+" FROM fence.admit_object($1, $2, $3, $4, $5, $6, $7) v", w.Object.Bucket, w.Object.Key,
			int64(w.Token), w.Principal, digestArg(digest), tokensArg(w.If.Match), tokensArg(w.If.NoneMatch))
		batch.Queue(change, args...)
		batch.Queue(sqlObjectRow, w.Object.Bucket, w.Object.Key)
		return s.send(ctx, batch, func(results pgx.BatchResults) (err error) {
			if err = results.QueryRow().Scan(v.dest()...); err != nil {
				return err
			}
			if err = results.QueryRow().Scan(&changed); err != nil {
				return err
			}
			return results.QueryRow().Scan(row.dest()...)
		})
	})
	if err != nil {
		return fence.Object{}, s.explainObject(ctx, w, err)
	}
	if err := v.err(w.Access); err != nil {
		return fence.Object{}, err
	}
	object, err := row.object(w.Object)
	if err != nil {
		return object, err
	}
	object.State = v.State()
	object.Created = w.Op == fence.OpPut && deref(changed)
	if object.Replayed = v.Code() == fence.CodeReplayed; object.Replayed {
		object.Created = deref(v.created)
	}
	return object, nil
}

// explainObject adds the object's state, as it stands after the transaction was undone, to an error.
func (s *Store) explainObject(ctx context.Context, w fence.ObjectWrite, err error) error {
	var e *fence.Error
	if !errors.As(err, &e) {
		return err
	}
	e.Token = w.Token
	switch e.Code {
	case fence.CodeUnavailable, fence.CodeOverloaded, fence.CodeOutcomeUnknown, fence.CodeContention:
		return err
	}
	if sqlState(err) == stateChangedNothing {
		e = fence.Wrap(fence.CodeNotFound, e.Err, "there is no such object")
		if w.If.Exists {
			e = fence.Wrap(fence.CodePreconditionFailed, e.Err, "the object does not exist")
		}
	}
	if v, _, readErr := s.object(ctx, w.Object, fence.Access{Principal: w.Principal}); readErr == nil {
		v.describe(e, w.Access)
	}
	return e
}

// objectColumns are the fields of fence.objects o as objectRow scans them.
const objectColumns = "o.blob::text, o.size, o.sha256, o.header, o.modified_at"

// sqlObjectRow reads them of one object, nulls when there is none.
const sqlObjectRow = "SELECT " + objectColumns + " FROM (SELECT 1) one LEFT JOIN fence.objects o ON o.bucket = $1 AND o.key = $2"

// object reads an object's state and pointer in one statement.
func (s *Store) object(ctx context.Context, name fence.ObjectName, by fence.Access) (verdict, fence.Object, error) {
	var (
		v verdict
		r objectRow
	)
	err := s.read(ctx, "SELECT "+verdictColumns+", "+objectColumns+`
		FROM fence.object_state($1, $2, $3, $4) v LEFT JOIN fence.objects o ON o.bucket = $1 AND o.key = $2`,
		[]any{name.Bucket, name.Key, tokenArg(by.Token), by.Principal}, append(v.dest(), r.dest()...)...)
	if err != nil {
		return v, fence.Object{}, err
	}
	o, err := r.object(name)
	o.State = v.State()
	return v, o, err
}

// objectRow is fence.objects; its fields are null when there is no object.
type objectRow struct {
	blob       *string
	size       *int64
	sha256     []byte
	header     []byte
	modifiedAt *time.Time
}

func (r *objectRow) dest() []any { return []any{&r.blob, &r.size, &r.sha256, &r.header, &r.modifiedAt} }

func (r *objectRow) object(name fence.ObjectName) (fence.Object, error) {
	o := fence.Object{ObjectName: name, Blob: deref(r.blob), Size: deref(r.size), SHA256: hex.EncodeToString(r.sha256), ModifiedAt: deref(r.modifiedAt)}
	if r.header != nil {
		if err := json.Unmarshal(r.header, &o.Header); err != nil {
			return o, fence.Wrap(fence.CodeInternal, err, "the ledger's headers of this object cannot be read")
		}
	}
	return o, nil
}
