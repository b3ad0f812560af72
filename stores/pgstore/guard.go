package pgstore

import "context"

// Guard makes a protected table refuse whatever was not admitted: from now on its rows change in transactions that called
// Admit, or fence.admit, for them. The gateways' writes are such. Guarding again does no harm, and covers partitions that
// were added. It waits, no longer than the lock timeout, for the transactions that write to the table. The database's role must
// be the table's owner.
func (s *Store) Guard(ctx context.Context, relation string) error {
	return s.exec(ctx, "SELECT fence.guard($1)", relation)
}

// Unguard takes the guard of a table away; it stays protected.
func (s *Store) Unguard(ctx context.Context, relation string) error {
	return s.exec(ctx, "SELECT fence.unguard($1)", relation)
}
