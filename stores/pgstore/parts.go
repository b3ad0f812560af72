package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
)

// KeepParts notes what a pending intent is stored in parts for. CodeUploadExpired when it is not pending any more.
func (s *Store) KeepParts(ctx context.Context, u fence.PartUpload) error {
	header, err := headerText(u.Header)
	if err != nil {
		return err
	}
	return s.changeBlob(ctx, "upload = $2, key = $3, token = $4, header = $5::text::jsonb", u.ID, u.Upload, u.Object.Key, int64(u.Token), header)
}

// JoiningParts notes what the parts of a pending intent are about to be joined to.
func (s *Store) JoiningParts(ctx context.Context, blob fence.Blob) error {
	return s.changeBlob(ctx, "size = $2, etag = $3", blob.ID, blob.Size, blob.ETag)
}

// StageBlob notes what a client was allowed to put into the store for a pending intent.
func (s *Store) StageBlob(ctx context.Context, blob fence.Blob, header fence.ObjectHeader) error {
	text, err := headerText(header)
	if err != nil {
		return err
	}
	return s.changeBlob(ctx, "staged = true, size = $2, sha256 = $3, header = $4::text::jsonb", blob.ID, blob.Size, sumArg(blob.SHA256), text)
}

// AdoptBlob notes that a blob lies under its own key now.
func (s *Store) AdoptBlob(ctx context.Context, id string) error {
	return s.changeBlob(ctx, "staged = false", id)
}

// changeBlob changes columns of a pending intent, whose id is the first argument, and begins its time anew. CodeUploadExpired when it is
// not pending any more.
func (s *Store) changeBlob(ctx context.Context, set string, args ...any) error {
	var kept bool
	err := s.query(ctx, "WITH kept AS (UPDATE fence.blobs SET "+set+", state_at = now() WHERE id = $1::text::uuid AND state = 'pending' RETURNING 1) SELECT count(*) > 0 FROM kept", args, &kept)
	switch {
	case fence.CodeOf(err) == fence.CodeOutcomeUnknown:
		return fence.Wrap(fence.CodeUnavailable, err, "PostgreSQL does not answer") // nothing is published by it
	case err == nil && !kept:
		s.intents.forget() // as in PutObject
		return fence.Errorf(fence.CodeUploadExpired, "the upload took too long and was given up")
	}
	return err
}

// partColumns are the fields of fence.blobs b as scanParts reads them. What is garbage was published once.
const partColumns = "b.id::text, b.bucket, b.key, b.principal, b.token, b.header, b.upload, b.state_at, b.state IN ('committed', 'garbage'), coalesce(b.size, 0), coalesce(b.etag, '')"

func scanParts(row pgx.CollectableRow) (u fence.PartUpload, err error) { return scanUpload(row) }

func scanUpload(row pgx.CollectableRow, more ...any) (u fence.PartUpload, err error) {
	var (
		token  int64
		header []byte
		at     time.Time
	)
	if err = row.Scan(append([]any{&u.ID, &u.Object.Bucket, &u.Object.Key, &u.Principal, &token, &header, &u.Upload, &at, &u.Published, &u.Size, &u.ETag}, more...)...); err != nil {
		return u, err
	}
	u.Token, u.BegunAt = fence.Token(token), at
	return u, readHeader(header, &u.Header)
}

// UseParts returns an intent that is stored in parts, pending or published, and begins its time anew. CodeUploadExpired when there is
// none of this principal, bucket and key; one that was given up is returned with it.
func (s *Store) UseParts(ctx context.Context, id, principal string, name fence.ObjectName) (fence.PartUpload, error) {
	gone := fence.Errorf(fence.CodeUploadExpired, "there is no such upload of this principal for this object")
	if !isBlobID(id) {
		return fence.PartUpload{}, gone
	}
	var aborted bool
	found, err := collect(ctx, s, func(row pgx.CollectableRow) (fence.PartUpload, error) { return scanUpload(row, &aborted) }, "SELECT "+partColumns+`, b.state = 'aborted'
		FROM fence.blobs b WHERE b.id = $1::text::uuid AND b.principal = $2 AND b.bucket = $3 AND b.key = $4 AND b.upload IS NOT NULL`, id, principal, name.Bucket, name.Key)
	switch {
	case err != nil:
		return fence.PartUpload{}, err
	case len(found) == 0:
		return fence.PartUpload{}, gone
	case aborted:
		return found[0], gone
	case found[0].Published:
		return found[0], nil
	}
	return found[0], s.changeBlob(ctx, "staged = staged", id)
}

// ListParts lists up to limit pending intents of a principal that are stored in parts, whose keys begin with prefix, in the order of
// their keys and ids behind that of after.
func (s *Store) ListParts(ctx context.Context, principal, bucket, prefix string, after fence.PartUpload, limit int) ([]fence.PartUpload, error) {
	var id *string
	if after.ID != "" {
		if !isBlobID(after.ID) {
			return nil, fence.Errorf(fence.CodeInvalidRequest, "there is no upload with such an id").In("after")
		}
		id = &after.ID
	}
	return collect(ctx, s, scanParts, "SELECT "+partColumns+` FROM fence.blobs b
		WHERE b.bucket = $2 AND b.state = 'pending' AND b.upload IS NOT NULL AND b.principal = $1 AND starts_with(b.key, $3) AND b.key >= $3
		  AND (b.key > $4 OR b.key = $4 AND b.id > $5::text::uuid) ORDER BY b.key, b.id LIMIT $6`, principal, bucket, prefix, after.Object.Key, id, limit)
}
