package lease

import "context"

// keptContext looks at the clock whenever it is looked at. A timer alone would fire late after the machine slept: a worker
// that wakes up finds its context over at its first look.
type keptContext struct {
	context.Context
	kept *Kept
}

func (c *keptContext) Err() error {
	c.kept.look()
	return c.Context.Err()
}

func (c *keptContext) Done() <-chan struct{} {
	c.kept.look()
	return c.Context.Done()
}
