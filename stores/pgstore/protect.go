package pgstore

import "context"

// Protect registers a table with the template of its leases ("wallet:{id}"), or changes the template. Nothing in the
// table changes. When it returns, the template is in force for every gateway (I2).
func (s *Store) Protect(ctx context.Context, relation, template string) error {
	return s.exec(ctx, "SELECT fence.protect($1, $2)", relation, template)
}

// ProtectBucket registers a bucket, or the keys below a prefix of it, with the template of its leases
// ("report:{key}", "daily:{key:1}"). Of several prefixes the longest wins.
func (s *Store) ProtectBucket(ctx context.Context, bucket, prefix, template string) error {
	return s.exec(ctx, "SELECT fence.protect_bucket($1, $2, $3)", bucket, prefix, template)
}
