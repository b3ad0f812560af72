package pgstore

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
)

// Object reads an object's pointer and mark in one statement. One that does not exist in the ledger is CodeNotFound with its State; what is
// known of its key is returned all the same.
func (s *Store) Object(ctx context.Context, name fence.ObjectName, by fence.Access) (fence.Object, error) {
	v, o, err := s.object(ctx, name, by)
	if err != nil {
		return fence.Object{}, err
	}
	if err := v.err(by); err != nil {
		return fence.Object{}, err
	}
	if o.Blob == "" {
		return o, v.refusal(fence.CodeNotFound, by, "there is no such object")
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
// token is the mark (it may be a replay, which only its body can tell), nor about the existence of an object that the ledger does not
// know. It returns what is known of the key.
func (s *Store) CheckWrite(ctx context.Context, w fence.ObjectWrite) (fence.Object, error) {
	v, o, err := s.object(ctx, w.Object, w.Access)
	if err != nil {
		return o, err
	}
	return o, checkWrite(w, v, o)
}

func checkWrite(w fence.ObjectWrite, v verdict, o fence.Object) error {
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
	case w.If.Exists && o.Blob == "" && (o.Written || !o.Options.Existing):
		return v.refusal(fence.CodePreconditionFailed, w.Access, "the object does not exist")
	}
	return nil
}

// PutObject admits the write and flips the pointer to the blob, whose intent must be pending.
func (s *Store) PutObject(ctx context.Context, w fence.ObjectWrite, blob fence.Blob) (fence.Object, error) {
	header, err := headerText(w.Header)
	if err != nil {
		return fence.Object{}, err
	}
	content := string(blob.SHA256[:])
	if blob.SHA256 == ([32]byte{}) {
		content = "etag " + blob.ETag
	}
	digest := fence.DigestOf("object", string(w.Op), conditionText(w.If), header, content)
	if w.Op == fence.OpCopy { // of a natural object, which was copied to the blob: the request is the same when it is repeated
		copied, err := copiedHeader(w)
		if err != nil {
			return fence.Object{}, err
		}
		digest = copyDigest(w, copied)
	}
	o, err := s.writeObject(ctx, w, digest, flip{blob: &blob, header: &header})
	if fence.CodeOf(err) == fence.CodeUploadExpired {
		s.intents.forget() // a ledger that has lost this one (a fail-over) has lost its like too
	}
	return o, err
}

// bodyArg is a fence.body of the parameters 4 to 8.
const bodyArg = "ROW($4::text::uuid, $5::bigint, $6::bytea, $7::text, $8::text::jsonb)::fence.body"

func sumArg(sum [32]byte) []byte {
	if sum == ([32]byte{}) {
		return nil
	}
	return sum[:]
}

func etagArg(etag string) *string {
	if etag == "" {
		return nil
	}
	return &etag
}

// CopyObject admits the write and points the object to its source's body. A source that is not there is CodeNotFound in the field
// "from".
func (s *Store) CopyObject(ctx context.Context, w fence.ObjectWrite) (fence.Object, error) {
	header, err := copiedHeader(w)
	if err != nil {
		return fence.Object{}, err
	}
	return s.writeObject(ctx, w, copyDigest(w, header), flip{copies: true, header: header})
}

// copiedHeader are the headers that a copy gets, as the ledger keeps them; nil for those of its source.
func copiedHeader(w fence.ObjectWrite) (*string, error) {
	if w.KeepHeader {
		return nil, nil
	}
	header, err := headerText(w.Header)
	return &header, err
}

// headerText is an object's headers as the ledger keeps them.
func headerText(h fence.ObjectHeader) (string, error) {
	text, err := json.Marshal(h)
	if err != nil {
		return "", fence.Wrap(fence.CodeInvalidRequest, err, "the object's headers cannot be kept")
	}
	return string(text), nil
}

func copyDigest(w fence.ObjectWrite, header *string) fence.Digest {
	return fence.DigestOf("object", string(w.Op), conditionText(w.If), w.From.Object.Bucket, w.From.Object.Key, w.From.Version.String(), deref(header))
}

func copyArgs(w fence.ObjectWrite, header *string) []any {
	return []any{w.Object.Bucket, w.Object.Key, int64(w.Token), w.From.Object.Bucket, w.From.Object.Key, int64(w.From.Version), header, w.Natural, w.If.Exists, w.If.Absent}
}

// DeleteObject admits the delete and hides the object.
func (s *Store) DeleteObject(ctx context.Context, w fence.ObjectWrite) (fence.Object, error) {
	digest := fence.DigestOf("object", string(w.Op), conditionText(w.If))
	return s.writeObject(ctx, w, digest, flip{})
}

func (s *Store) writeObject(ctx context.Context, w fence.ObjectWrite, digest fence.Digest, f flip) (fence.Object, error) {
	if s.lanes != nil {
		e := objectEntryOf(w, digest, f)
		alone, leave, err := s.together(ctx, e)
		switch {
		case err != nil:
			return fence.Object{}, s.explainObject(ctx, w, err)
		case !alone:
			return e.object.result(e.outcome.verdict)
		}
		defer leave()
	}
	var (
		v       verdict
		changed *bool
		row     objectRow
	)
	change, args := f.change(w)
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
	return writtenObject(w, v, changed, row)
}

// writtenObject is what a write of an object returns.
func writtenObject(w fence.ObjectWrite, v verdict, changed *bool, row objectRow) (fence.Object, error) {
	if err := v.err(w.Access); err != nil {
		return fence.Object{}, err
	}
	object, err := row.object(w.Object)
	if err != nil {
		return object, err
	}
	object.State = v.State()
	object.Created = w.Op != fence.OpDelete && deref(changed)
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
	if sqlState(err) == stateNoSource {
		e.Field = "from"
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
