package redislease

import "time"

// KeyOf is where a lease stands.
func KeyOf(c Config, name string) string { return (&Locker{config: c.withDefaults()}).key(name) }

// ChannelOf is on which channel a locker hears of a lease in a cluster.
func ChannelOf(l *Locker, name string) string { return l.shardChannel(name) }

// GatewayOf is a locker's identity.
func GatewayOf(l *Locker) string { return l.gateway }

// Forget makes a locker that listens forget what nobody needs at that time.
func Forget(l *Locker, now time.Time) {
	l.shards.mu.Lock()
	listener := l.shards.listener
	l.shards.mu.Unlock()
	listener.forget(now)
}
