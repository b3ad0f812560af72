package lease

import "context"

// WithLock runs fn under a lease with the defaults of a Keeper.
func WithLock(ctx context.Context, leases Leases, name string, fn func(context.Context, *Kept) error) error {
	return Keeper{Leases: leases}.WithLock(ctx, name, fn)
}

// WithLock acquires a lease, runs fn, and releases the lease, whether fn returns or panics and whether ctx has ended or
// not. The context that fn gets ends when the lease is lost.
//
// It returns the error of Keep, or else that of fn. When the lease was lost before fn had returned it returns a *LostError,
// joined with the error of fn: what fn did with its tokens is done or refused as it was told, but it may not have been
// alone. A lease that could not be released is no error; it runs out by itself.
func (k Keeper) WithLock(ctx context.Context, name string, fn func(context.Context, *Kept) error) error {
	kept, err := k.Keep(ctx, name)
	if err != nil {
		return err
	}
	defer func() { _ = kept.Close() }()
	err = fn(kept.Context(), kept)
	if lost := lossOf(kept.Err()); lost != nil {
		return unlessHeld(err, lost)
	}
	return err
}
