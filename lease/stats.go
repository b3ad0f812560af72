package lease

// Stats is what a Manager has met so far.
type Stats struct {
	// Waiting is how many acquires wait at the moment for a lease that somebody else holds.
	Waiting int64
	// Void is how many certificates came too late: the lease was granted to somebody else between the look at the
	// ledger and the certificate. It happens when the locker lost or divided its data, or when a lease expired under
	// an acquire that was slow. The ledger has kept the order (I4); many of them are a reason to look at the locker.
	Void uint64
}

// Stats asks nobody; it is cheap.
func (m *Manager) Stats() Stats {
	m.turns.mu.Lock()
	defer m.turns.mu.Unlock()
	return Stats{Waiting: int64(m.turns.waiting), Void: m.void.Load()}
}
