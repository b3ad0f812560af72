package pglease

import "time"

// Hurry shortens what a locker does now and then. Before Listen.
func (l *Locker) Hurry(health, sweep time.Duration) { l.health, l.sweep = health, sweep }

// Parse is parse.
var Parse = parse
