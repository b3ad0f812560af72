package gateway

import "sync"

// bell wakes all that wait for it.
type bell struct {
	mu   sync.Mutex
	next chan struct{} // guarded by mu; nil while nobody waits
}

// wait returns a channel that is closed when the bell is rung the next time.
func (b *bell) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}
