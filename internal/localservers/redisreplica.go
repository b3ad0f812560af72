package localservers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Follow makes the server a replica of a primary with TCP and returns when the copy is complete. What it held is lost.
func (r *Redis) Follow(ctx context.Context, primary *Redis) error {
	host, port, err := net.SplitHostPort(primary.Address())
	if err != nil {
		return errors.New("the primary has no TCP port")
	}
	for _, c := range [][]any{{"CONFIG", "SET", "masterauth", ""}, {"REPLICAOF", host, port}} {
		if _, err := r.do(ctx, c...); err != nil {
			return err
		}
	}
	return r.waitReady(ctx, r.copies(ctx))
}

// copies tells whether the server is a replica whose copy is complete.
func (r *Redis) copies(ctx context.Context) func() bool {
	return func() bool {
		info, err := r.do(ctx, "INFO", "replication")
		return err == nil && strings.Contains(info, "master_link_status:up")
	}
}

// Cut ends the replication for good: the replica keeps its copy, stays a replica, and hears no more of its primary until
// it is told to Follow. To pause the replica instead would not do: what was sent to it meanwhile it reads afterwards.
func (r *Redis) Cut(ctx context.Context) error {
	// A primary without a password refuses a replica that sends one. To name another primary would be put right by a
	// Sentinel.
	if _, err := r.do(ctx, "CONFIG", "SET", "masterauth", rand.Text()); err != nil {
		return err
	}
	_, err := r.do(ctx, "CLIENT", "KILL", "TYPE", "master")
	return err
}

// Promote makes a replica a primary of what it has copied.
func (r *Redis) Promote(ctx context.Context) error {
	_, err := r.do(ctx, "REPLICAOF", "NO", "ONE")
	return err
}

// do runs a command over the server's socket, which belongs to nobody else whatever happens to the port.
func (r *Redis) do(ctx context.Context, args ...any) (string, error) {
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: r.socket, ContextTimeoutEnabled: true})
	defer client.Close()
	reply, err := client.Do(ctx, args...).Result()
	if err != nil {
		return "", fmt.Errorf("redis %v: %w", args[:min(2, len(args))], err)
	}
	return fmt.Sprint(reply), nil
}
