package pgstore

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// objectColumns are the fields of fence.objects o and its blob b as objectRow scans them.
const objectColumns = "o.key IS NOT NULL, o.blob::text, b.bucket, o.size, o.sha256, o.etag, o.header, o.modified_at, o.token"

// objectTables joins them to what stands before; the bucket and key are the parameters 1 and 2.
const objectTables = " LEFT JOIN fence.objects o ON o.bucket = $1 AND o.key = $2 LEFT JOIN fence.blobs b ON b.id = o.blob"

// sqlObjectRow reads them of one object, nulls when there is none.
const sqlObjectRow = "SELECT " + objectColumns + " FROM (SELECT 1) one" + objectTables

// optionColumns are the fields of the options p.o, a jsonb, as optionsRow scans them.
const optionColumns = `coalesce((extract(epoch FROM (p.o ->> 'keep')::interval) * 1000)::bigint, 0), coalesce((p.o ->> 'redirect')::boolean, false),
	coalesce((p.o ->> 'existing')::boolean, true), coalesce(p.o ->> 'deletes' = 'lease', false)`

// object reads an object's state and pointer in one statement. OFFSET 0 keeps PostgreSQL from asking for the options once for each of them.
func (s *Store) object(ctx context.Context, name fence.ObjectName, by fence.Access) (verdict, fence.Object, error) {
	var (
		v       verdict
		r       objectRow
		options optionsRow
	)
	err := s.read(ctx, "SELECT "+verdictColumns+", "+objectColumns+", "+optionColumns+`
		FROM fence.object_state($1, $2, $3, $4) v CROSS JOIN (SELECT fence.bucket_options($1, $2) AS o OFFSET 0) p`+objectTables,
		[]any{name.Bucket, name.Key, tokenArg(by.Token), by.Principal}, append(append(v.dest(), r.dest()...), options.dest()...)...)
	if err != nil {
		return v, fence.Object{}, err
	}
	o, err := r.object(name)
	o.State, o.Options = v.State(), options.options()
	return v, o, err
}

// objectRow is fence.objects; its fields are null when there is no object.
type objectRow struct {
	known      bool
	blob       *string
	bucket     *string
	size       *int64
	sha256     []byte
	etag       *string
	header     []byte
	modifiedAt *time.Time
	token      *int64
}

func (r *objectRow) dest() []any {
	return []any{&r.known, &r.blob, &r.bucket, &r.size, &r.sha256, &r.etag, &r.header, &r.modifiedAt, &r.token}
}

func (r *objectRow) object(name fence.ObjectName) (fence.Object, error) {
	o := fence.Object{
		ObjectName: name, Blob: deref(r.blob), BlobBucket: deref(r.bucket), Size: deref(r.size), SHA256: hex.EncodeToString(r.sha256), ETag: deref(r.etag),
		ModifiedAt: deref(r.modifiedAt), Version: fence.Token(deref(r.token)), Written: r.known,
	}
	return o, readHeader(r.header, &o.Header)
}

func readHeader(text []byte, into *fence.ObjectHeader) error {
	if text == nil {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fence.Wrap(fence.CodeInternal, err, "the ledger's headers of this object cannot be read")
	}
	return nil
}

// optionsRow is the options of a bucket.
type optionsRow struct {
	keepMS                        int64
	redirect, existing, takeLease bool
}

func (r *optionsRow) dest() []any { return []any{&r.keepMS, &r.redirect, &r.existing, &r.takeLease} }

func (r *optionsRow) options() fence.BucketOptions {
	return fence.BucketOptions{Keep: time.Duration(r.keepMS) * time.Millisecond, Redirect: r.redirect, Existing: r.existing, TakeLease: r.takeLease}
}
