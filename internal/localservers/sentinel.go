package localservers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// SentinelConfig says what a Sentinel watches.
type SentinelConfig struct {
	// Dir is the server's folder. It is made if absent and never shared with anything else. Required.
	Dir string
	// Primary is the Redis that it watches at first. It has TCP. Required.
	Primary *Redis
	// Replicas are how many replicas it has to find before it is ready. Defaults to 0.
	Replicas int
	// Name is the primary's in the Sentinel. Defaults to "leases".
	Name string
	// Quorum is how many Sentinels must miss the primary. Defaults to 1.
	Quorum int
	// DownAfter is how long the primary must be missed. Defaults to 200 ms.
	DownAfter time.Duration
	// Log hears what is started and where. Defaults to nothing.
	Log *slog.Logger
}

// Sentinel is a running Redis Sentinel. Started again on its folder it has the same address and remembers what it knew.
type Sentinel struct {
	*Redis
	name string
}

// StartSentinel starts a Sentinel on a free loopback port and returns when it knows the primary and its replicas. The
// context bounds the start only.
func StartSentinel(ctx context.Context, c SentinelConfig) (*Sentinel, error) {
	c.Name, c.Quorum, c.DownAfter = cmp.Or(c.Name, "leases"), cmp.Or(c.Quorum, 1), cmp.Or(c.DownAfter, 200*time.Millisecond)
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	dir, err := makeFolder(c.Dir, 0o700)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "sentinel.conf")
	if err := c.writeOnce(file); err != nil {
		return nil, err
	}
	r, err := onPorts(ctx, dir, func(p ports) (*Redis, error) {
		return startRedisServer(ctx, redisCommand{dir: dir, log: c.Log, ports: p, args: func(socket string, p ports) []string {
			return []string{file, "--sentinel", "--port", p.listen(), "--bind", loopback, "--unixsocket", socket, "--unixsocketperm", "700"}
		}})
	})
	if err != nil {
		return nil, err
	}
	s := &Sentinel{Redis: r, name: c.Name}
	if err := s.waitReady(ctx, func() bool { return s.knows(ctx, c.Replicas) }); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// writeOnce makes the file that the Sentinel rewrites from then on.
func (c SentinelConfig) writeOnce(file string) error {
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	host, port, err := net.SplitHostPort(c.Primary.Address())
	if err != nil {
		return errors.New("the Sentinel's primary has no TCP port")
	}
	content := fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s %[4]d\nsentinel down-after-milliseconds %[1]s %[5]d\nsentinel failover-timeout %[1]s 2000\n",
		c.Name, host, port, c.Quorum, c.DownAfter.Milliseconds())
	return os.WriteFile(file, []byte(content), 0o600)
}

// knows tells whether the Sentinel has heard from the primary and at least this many replicas.
func (s *Sentinel) knows(ctx context.Context, replicas int) bool {
	found, err := s.do(ctx, "SENTINEL", "REPLICAS", s.name)
	if err != nil {
		return false
	}
	quorum, err := s.do(ctx, "SENTINEL", "CKQUORUM", s.name)
	return err == nil && strings.HasPrefix(quorum, "OK") && strings.Count(found, "master-link-status:ok") >= replicas
}

// Primary returns the address of the primary that the Sentinel knows, which is another after a fail-over.
func (s *Sentinel) Primary(ctx context.Context) (string, error) {
	reply, err := s.do(ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", s.name)
	if err != nil {
		return "", err
	}
	host, port, _ := strings.Cut(strings.Trim(reply, "[]"), " ")
	return net.JoinHostPort(host, port), nil
}

// URL returns the address of the primary by way of the Sentinel, as redislease reads it.
func (s *Sentinel) URL() string {
	return fmt.Sprintf("redis+sentinel://%s?master_name=%s", s.Address(), s.name)
}
