package pgstore

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
)

// flip is what a write of an object publishes: a blob, or without one a copy of another object, or that there is none any more.
type flip struct {
	blob   *fence.Blob
	copies bool
	header *string // as the ledger keeps it; nil for that of the source
}

// change is the statement that makes the flip of a write that was admitted before in its transaction.
func (f flip) change(w fence.ObjectWrite) (string, []any) {
	switch {
	case f.blob != nil:
		return "SELECT fence.publish($1, $2, $3, " + bodyArg + ", $9, $10, $11)", []any{
			w.Object.Bucket, w.Object.Key, int64(w.Token), f.blob.ID, f.blob.Size, sumArg(f.blob.SHA256), etagArg(f.blob.ETag), f.header, w.Natural, w.If.Exists, w.If.Absent,
		}
	case f.copies:
		return "SELECT fence.copy_object($1, $2, $3, $4, $5, $6, $7::text::jsonb, $8, $9, $10)", copyArgs(w, f.header)
	}
	return "SELECT fence.hide($1, $2, $3, $4, $5)", []any{w.Object.Bucket, w.Object.Key, int64(w.Token), w.Natural, w.If.Absent}
}

// objectEntry is a write of an object in a batch, and what it returned.
type objectEntry struct {
	w fence.ObjectWrite
	flip

	changed *bool
	lease   *string // that of the mark
	row     objectRow
}

func objectEntryOf(w fence.ObjectWrite, digest fence.Digest, f flip) *entry {
	return &entry{
		resource: "objects/" + w.Object.Bucket + "/" + w.Object.Key, size: len(deref(f.header)) + len(w.Object.Key),
		write:  writeArgs{token: int64(w.Token), principal: w.Principal, digest: digest, cond: w.If},
		object: &objectEntry{w: w, flip: f},
	}
}

// result is what the write returns. The lease of one that was accepted was found by the ledger, and stands in the mark.
func (o *objectEntry) result(v verdict) (fence.Object, error) {
	if v.Code() == fence.CodeAccepted {
		if o.changed == nil {
			return fence.Object{}, fence.Errorf(fence.CodeInternal, "the write was admitted, and its object is not in the answer")
		}
		v.lease = o.lease
	}
	return writtenObject(o.w, v, o.changed, o.row)
}

// objectsOf are the objects of a batch, by their places from 1.
func objectsOf(entries []*entry) map[int32]*objectEntry {
	var objects map[int32]*objectEntry
	for i, e := range entries {
		if e.object == nil {
			continue
		}
		if objects == nil {
			objects = make(map[int32]*objectEntry)
		}
		objects[int32(i+1)] = e.object
	}
	return objects
}

// sqlFlips makes the flips of a batch, sqlFlipped reads the objects as they stand then.
const (
	sqlFlips = `SELECT f.item, f.changed FROM fence.flip_batch($1, $2, $3, $4, $5, $6::text[]::uuid[], $7, $8, $9, $10::text[]::jsonb[],
		$11, $12, $13, $14, $15, $16) f`
	sqlFlipped = "SELECT u.item, m.lease, " + objectColumns + ` FROM unnest($1::integer[], $2::text[], $3::text[]) u(item, bucket, key)
		LEFT JOIN fence.objects o ON o.bucket = u.bucket AND o.key = u.key LEFT JOIN fence.blobs b ON b.id = o.blob
		LEFT JOIN fence.marks m ON m.resource = 'objects/' || u.bucket || '/' || u.key`
)

func queueFlips(batch *pgx.Batch, objects map[int32]*objectEntry) {
	if len(objects) == 0 {
		return
	}
	var (
		items                     []int32
		ops, buckets, keys        []string
		tokens                    []int64
		blobs, etags, headers     []*string
		sizes, fromTokens         []*int64
		sums                      [][]byte
		naturals, exists, absents []bool
		fromBuckets, fromKeys     []string
	)
	for item, o := range objects {
		w, op, from := o.w, string(fence.OpDelete), (*int64)(nil)
		var (
			blob, etag *string
			size       *int64
			sum        []byte
		)
		switch {
		case o.blob != nil:
			op, blob, size, sum, etag = string(fence.OpPut), &o.blob.ID, &o.blob.Size, sumArg(o.blob.SHA256), etagArg(o.blob.ETag)
		case o.copies:
			version := int64(w.From.Version)
			op, from = string(fence.OpCopy), &version
		}
		items, ops, buckets, keys = append(items, item), append(ops, op), append(buckets, w.Object.Bucket), append(keys, w.Object.Key)
		tokens, blobs, sizes, sums = append(tokens, int64(w.Token)), append(blobs, blob), append(sizes, size), append(sums, sum)
		etags, headers = append(etags, etag), append(headers, o.header)
		naturals, exists, absents = append(naturals, w.Natural), append(exists, w.If.Exists), append(absents, w.If.Absent)
		fromBuckets, fromKeys, fromTokens = append(fromBuckets, w.From.Object.Bucket), append(fromKeys, w.From.Object.Key), append(fromTokens, from)
	}
	batch.Queue(sqlFlips, items, ops, buckets, keys, tokens, blobs, sizes, sums, etags, headers, naturals, exists, absents, fromBuckets, fromKeys, fromTokens)
	batch.Queue(sqlFlipped, items, buckets, keys)
}

// readFlips reads the answers to what queueFlips queued.
func readFlips(results pgx.BatchResults, objects map[int32]*objectEntry) error {
	if len(objects) == 0 {
		return nil
	}
	var (
		item    int32
		changed *bool
	)
	err := eachRow(results, []any{&item, &changed}, func() error {
		o, err := objectAt(objects, item)
		if err == nil {
			o.changed, changed = changed, nil
		}
		return err
	})
	if err != nil {
		return err
	}
	var (
		lease *string
		row   objectRow
	)
	return eachRow(results, append([]any{&item, &lease}, row.dest()...), func() error {
		o, err := objectAt(objects, item)
		if err == nil {
			o.lease, o.row, lease, row = lease, row, nil, objectRow{}
		}
		return err
	})
}

func objectAt(objects map[int32]*objectEntry, item int32) (*objectEntry, error) {
	if o := objects[item]; o != nil {
		return o, nil
	}
	return nil, fmt.Errorf("the ledger speaks of write %d of a batch that has no object there", item)
}

// eachRow scans the rows of a statement's answer, one after the other, into dest.
func eachRow(results pgx.BatchResults, dest []any, f func() error) error {
	rows, err := results.Query()
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		if err := f(); err != nil {
			return err
		}
	}
	return rows.Err()
}
