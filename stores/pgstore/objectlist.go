package pgstore

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
)

// Buckets names the buckets that something protects, in the order of their bytes.
func (s *Store) Buckets(ctx context.Context) ([]string, error) {
	return collect(ctx, s, pgx.RowTo[string], `SELECT DISTINCT p.name COLLATE "C" AS name FROM fence.protected p WHERE p.kind = 'bucket' ORDER BY name`)
}

// Bindings lists the protected prefixes of a bucket in the order of their bytes; none is CodeNotFound.
func (s *Store) Bindings(ctx context.Context, bucket string) ([]fence.BucketBinding, error) {
	found, err := collect(ctx, s, func(row pgx.CollectableRow) (b fence.BucketBinding, err error) {
		var options optionsRow
		err = row.Scan(append([]any{&b.Prefix}, options.dest()...)...)
		b.Options = options.options()
		return b, err
	}, "SELECT p.prefix, "+optionColumns+` FROM (SELECT prefix, options AS o FROM fence.protected WHERE kind = 'bucket' AND name = $1) p ORDER BY p.prefix`, bucket)
	if err == nil && len(found) == 0 {
		return nil, fence.Errorf(fence.CodeNotFound, "nothing protects the bucket, so it does not exist here").In("bucket")
	}
	return found, err
}

// ListObjects returns a page of the objects that the ledger knows, whatever protects them.
func (s *Store) ListObjects(ctx context.Context, q fence.ObjectQuery) (fence.ObjectPage, error) {
	if q.Limit < 1 || q.Limit > fence.MaxObjects {
		return fence.ObjectPage{}, fence.Errorf(fence.CodeInvalidRequest, "limit is a number from 1 to %d", fence.MaxObjects).In("limit")
	}
	entries, err := collect(ctx, s, func(row pgx.CollectableRow) (e fence.ObjectEntry, err error) {
		var (
			size, token       *int64
			sha256            []byte
			etag, contentType *string
			modifiedAt        *time.Time
		)
		err = row.Scan(&e.Key, &e.Group, &size, &sha256, &etag, &token, &modifiedAt, &contentType)
		e.Size, e.SHA256, e.ETag, e.Version = deref(size), hex.EncodeToString(sha256), deref(etag), fence.Token(deref(token))
		e.ModifiedAt, e.ContentType = deref(modifiedAt), deref(contentType)
		return e, err
	}, "SELECT * FROM fence.list_objects($1, $2, $3, $4, $5)", q.Bucket, q.Prefix, q.Delimiter, q.After, q.Limit+1)
	if err != nil {
		return fence.ObjectPage{}, err
	}
	if len(entries) > q.Limit {
		return fence.ObjectPage{Entries: entries[:q.Limit], More: true}, nil
	}
	return fence.ObjectPage{Entries: entries}, nil
}

// KnownKeys returns those of the keys that the ledger knows, also as deleted.
func (s *Store) KnownKeys(ctx context.Context, bucket string, keys []string) ([]string, error) {
	return collect(ctx, s, pgx.RowTo[string], "SELECT o.key FROM fence.objects o WHERE o.bucket = $1 AND o.key = ANY ($2)", bucket, keys)
}

// AnyDeleted tells whether the ledger knows a deleted object below a prefix.
func (s *Store) AnyDeleted(ctx context.Context, bucket, prefix string) (bool, error) {
	var found bool
	err := s.read(ctx, "SELECT EXISTS (SELECT FROM fence.objects o WHERE o.bucket = $1 AND o.deleted AND o.key >= $2 AND o.key < $3)",
		[]any{bucket, prefix, endOf(prefix, fence.MaxObjectKey)}, &found)
	return found, err
}

// collect reads the rows of a statement that changes nothing.
func collect[T any](ctx context.Context, s *Store, scan pgx.RowToFunc[T], sql string, args ...any) ([]T, error) {
	var found []T
	batch := &pgx.Batch{}
	batch.Queue(sql, args...)
	err := s.readSnapshot(ctx, batch, func(results pgx.BatchResults) error {
		rows, err := results.Query()
		if err == nil {
			found, err = pgx.CollectRows(rows, scan)
		}
		return err
	})
	return found, err
}
