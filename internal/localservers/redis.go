package localservers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const probeTimeout = time.Second

// RedisConfig says where a Redis keeps its data, if it does, and where it listens.
type RedisConfig struct {
	// Dir is the server's folder. It is made if absent and never shared with anything else. Required.
	Dir string
	// Persist keeps the leases across restarts. Defaults to false.
	Persist bool
	// TCP makes it listen on a loopback port too, as replicas and Sentinels need it. Defaults to false.
	TCP bool
	// Log hears what is started and where. Defaults to nothing.
	Log *slog.Logger

	clusterNode bool
}

// Redis is a running redis-server. To start it again after Stop or Kill, call StartRedis on the same folder: its URL
// stays the same.
type Redis struct {
	*Process
	socket string
	ports  ports
}

// StartRedis starts the redis-server of a folder and returns when it answers. Without the program the error is a
// *MissingError. The context bounds the start only.
func StartRedis(ctx context.Context, c RedisConfig) (*Redis, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	dir, err := makeFolder(c.Dir, 0o700)
	if err != nil {
		return nil, err
	}
	if !c.TCP {
		return startRedisServer(ctx, redisCommand{dir: dir, log: c.Log, args: c.args})
	}
	return onPorts(ctx, dir, func(p ports) (*Redis, error) {
		return startRedisServer(ctx, redisCommand{dir: dir, log: c.Log, ports: p, args: c.args})
	})
}

// redisCommand is a server by the program redis-server: a Redis or a Sentinel.
type redisCommand struct {
	dir   string
	log   *slog.Logger
	ports ports
	args  func(socket string, p ports) []string
}

func startRedisServer(ctx context.Context, c redisCommand) (*Redis, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, &MissingError{Program: "redis-server", Apt: "redis-server", Homebrew: "redis"}
	}
	lock, err := lockFolder(ctx, c.dir, c.dir)
	if err != nil {
		return nil, err
	}
	sockets, err := socketFolder(c.dir, identity{})
	if err != nil {
		lock.release()
		return nil, err
	}
	r := &Redis{socket: filepath.Join(sockets, "redis.sock"), ports: c.ports}
	// A second server on a socket's path would take it over without a word: the lock keeps that out.
	r.Process, err = startProcess(command{
		name: "redis-server", path: program, args: c.args(r.socket, c.ports), env: os.Environ(), dir: c.dir,
		logFile: filepath.Join(c.dir, "server.log"), lock: lock,
		exited: func() {
			lock.release()
			if filepath.Dir(sockets) != c.dir {
				os.RemoveAll(sockets)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(lock.record(r.Pid()), r.waitReady(ctx, r.answers)); err != nil {
		return nil, errors.Join(err, r.Stop())
	}
	c.log.Info("Redis is ready", "dir", c.dir, "pid", r.Pid())
	return r, nil
}

func (c RedisConfig) args(socket string, p ports) []string {
	appendOnly := "no"
	if c.Persist {
		appendOnly = "yes"
	}
	args := []string{
		"--port", p.listen(), "--unixsocket", socket, "--unixsocketperm", "700", "--daemonize", "no",
		"--save", "", "--appendonly", appendOnly, "--appendfsync", "everysec",
	}
	if c.TCP {
		// The delay is for many replicas that ask at once.
		args = append(args, "--bind", loopback, "--repl-diskless-sync-delay", "0")
	}
	if c.clusterNode {
		args = append(args, "--cluster-enabled", "yes", "--cluster-port", p.bus, "--cluster-node-timeout", clusterNodeTimeout,
			// A node that is down takes its own keys with it, not everybody's.
			"--cluster-require-full-coverage", "no")
	}
	return args
}

// URL returns the server's URL as go-redis reads it, with the port if it has one.
func (r *Redis) URL() string {
	if a := r.Address(); a != "" {
		return "redis://" + a
	}
	return (&url.URL{Scheme: "unix", Path: r.socket}).String()
}

// Address returns host:port, or nothing for a server without TCP.
func (r *Redis) Address() string { return r.ports.address() }

// answers sends a PING. A server that still loads its data answers with an error.
func (r *Redis) answers() bool {
	conn, err := net.DialTimeout("unix", r.socket, probeTimeout)
	if err != nil {
		return false
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(probeTimeout)); err != nil {
		return false
	}
	if _, err := fmt.Fprint(conn, "PING\r\n"); err != nil {
		return false
	}
	answer := make([]byte, len("+PONG"))
	_, err = conn.Read(answer)
	return err == nil && string(answer) == "+PONG"
}
