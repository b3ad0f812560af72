package pgstore

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores"
)

// StagedBlobs returns those of the blobs that are the principal's and lie under their staging keys still.
func (s *Store) StagedBlobs(ctx context.Context, principal string, ids []string) ([]stores.StagedBlob, error) {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !isBlobID(id) })
	if len(ids) == 0 {
		return nil, nil
	}
	return collect(ctx, s, func(row pgx.CollectableRow) (b stores.StagedBlob, err error) {
		var sum []byte
		if err = row.Scan(&b.ID, &b.Bucket, &b.Size, &sum); err == nil && copy(b.SHA256[:], sum) != len(b.SHA256) {
			err = fence.Errorf(fence.CodeInternal, "the ledger has no checksum of the upload %s", b.ID)
		}
		return b, err
	}, "SELECT b.id::text, b.bucket, b.size, b.sha256 FROM fence.blobs b WHERE b.id = ANY ($2::text[]::uuid[]) AND b.principal = $1 AND b.staged AND b.state = 'pending'", principal, ids)
}
