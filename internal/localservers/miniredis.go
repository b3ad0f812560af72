package localservers

import (
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
)

const miniredisTick = 10 * time.Millisecond

// Miniredis is a Redis inside this program, for machines without redis-server. It keeps nothing across restarts.
type Miniredis struct {
	server *miniredis.Miniredis
	stop   chan struct{}
	done   chan struct{}
}

// StartMiniredis starts one on a free loopback port.
func StartMiniredis() (*Miniredis, error) {
	server := miniredis.NewMiniRedis()
	if err := server.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("start the Redis in process: %w", err)
	}
	m := &Miniredis{server: server, stop: make(chan struct{}), done: make(chan struct{})}
	go m.run()
	return m, nil
}

// run lets time pass: miniredis expires keys only when it is told how long it waited.
func (m *Miniredis) run() {
	defer close(m.done)
	ticker := time.NewTicker(miniredisTick)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-m.stop:
			return
		case <-ticker.C:
			now := time.Now()
			m.server.FastForward(now.Sub(last))
			last = now
		}
	}
}

// URL returns the server's URL as go-redis reads it.
func (m *Miniredis) URL() string { return "redis://" + m.server.Addr() }

// Stop ends the server. It is called once.
func (m *Miniredis) Stop() error {
	close(m.stop)
	<-m.done
	m.server.Close()
	return nil
}
