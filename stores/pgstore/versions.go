package pgstore

import (
	"cmp"
	"context"
	"encoding/hex"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
)

// Version reads a state of the object that is kept, by the token under which it was published, or fence.ImportedVersion; CodeNotFound when it
// had no body then, or is kept no more.
func (s *Store) Version(ctx context.Context, name fence.ObjectName, by fence.Access, version fence.Token) (fence.Object, error) {
	v, o, err := s.object(ctx, name, by)
	if err != nil || v.err(by) != nil {
		return fence.Object{}, cmp.Or(err, v.err(by))
	}
	version = max(version, 0) // as the ledger has it
	if o.Blob != "" && o.Version == version {
		return o, nil
	}
	absent := v.refusal(fence.CodeNotFound, by, "the object has no version "+version.String()+", or keeps it no more")
	found, err := collect(ctx, s, func(row pgx.CollectableRow) (r objectRow, err error) {
		return r, row.Scan(r.dest()...)
	}, "SELECT "+objectColumns+` FROM (SELECT key, blob, size, sha256, etag, header, modified_at, token FROM fence.versions WHERE bucket = $1 AND key = $2 AND token = $3 AND blob IS NOT NULL) o
		JOIN fence.blobs b ON b.id = o.blob`, name.Bucket, name.Key, int64(version))
	if err != nil || len(found) == 0 {
		return fence.Object{}, cmp.Or(err, error(absent))
	}
	former, err := found[0].object(name)
	former.State, former.Options = o.State, o.Options
	return former, err
}

// History lists up to limit states of an object, the present one and those that are kept, newest first, behind before (0 is from the
// present one on).
func (s *Store) History(ctx context.Context, name fence.ObjectName, before fence.Token, limit int) ([]fence.ObjectVersion, error) {
	if err := s.CheckBucket(ctx, name.Bucket); err != nil {
		return nil, err
	}
	return collect(ctx, s, func(row pgx.CollectableRow) (h fence.ObjectVersion, err error) {
		var (
			size                *int64
			sha256, header      []byte
			superseded, keptFor *time.Time
		)
		if err = row.Scan(&h.Version, &h.Deleted, &size, &sha256, &header, &h.ModifiedAt, &superseded, &keptFor); err != nil {
			return h, err
		}
		h.Size, h.SHA256, h.SupersededAt, h.KeepUntil = deref(size), hex.EncodeToString(sha256), deref(superseded), deref(keptFor)
		return h, readHeader(header, &h.Header)
	}, `SELECT * FROM (
			SELECT o.token, o.deleted, o.size, o.sha256, o.header, o.modified_at, NULL::timestamptz, NULL::timestamptz FROM fence.objects o WHERE o.bucket = $1 AND o.key = $2
			UNION ALL
			SELECT v.token, v.blob IS NULL, v.size, v.sha256, v.header, v.modified_at, v.superseded_at, v.keep_until FROM fence.versions v WHERE v.bucket = $1 AND v.key = $2) h
		WHERE $3::bigint = 0 OR h.token < $3::bigint ORDER BY h.token DESC LIMIT $4`, name.Bucket, name.Key, int64(before), limit)
}

// ExpireVersions forgets versions that are kept no longer, at most limit of them, and returns how many.
func (s *Store) ExpireVersions(ctx context.Context, limit int) (int, error) {
	var n int
	err := s.query(ctx, "SELECT fence.expire_versions($1)", []any{limit}, &n)
	return n, err
}

// ImportObject takes a natural object, which was copied to a blob whose intent is pending, into the ledger, unless its key was written
// before; false when it was.
func (s *Store) ImportObject(ctx context.Context, name fence.ObjectName, blob fence.Blob, header fence.ObjectHeader, modifiedAt time.Time) (bool, error) {
	text, err := headerText(header)
	if err != nil {
		return false, err
	}
	var done bool
	err = s.query(ctx, "SELECT fence.import_object($1, $2, ROW($3::text::uuid, $4::bigint, $5::bytea, $6::text, $7::text::jsonb)::fence.body, $8)",
		[]any{name.Bucket, name.Key, blob.ID, blob.Size, sumArg(blob.SHA256), etagArg(blob.ETag), text, modifiedAt}, &done)
	return done, err
}
