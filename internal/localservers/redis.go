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

// RedisConfig says where a Redis keeps its data, if it does.
type RedisConfig struct {
	// Dir is the server's folder. It is made if absent and never shared with anything else. Required.
	Dir string
	// Persist keeps the leases across restarts. Defaults to false.
	Persist bool
	// Log hears what is started and where. Defaults to nothing.
	Log *slog.Logger
}

// Redis is a running redis-server. To start it again after Stop or Kill, call StartRedis on the same folder: its URL
// stays the same.
type Redis struct {
	*Process
	socket string
}

// StartRedis starts the redis-server of a folder and returns when it answers. Without the program the error is a
// *MissingError. The context bounds the start only.
func StartRedis(ctx context.Context, c RedisConfig) (*Redis, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, &MissingError{Program: "redis-server", Apt: "redis-server", Homebrew: "redis"}
	}
	dir, err := makeFolder(c.Dir, 0o700)
	if err != nil {
		return nil, err
	}
	lock, err := lockFolder(ctx, dir, dir)
	if err != nil {
		return nil, err
	}
	sockets, err := socketFolder(dir, identity{})
	if err != nil {
		lock.release()
		return nil, err
	}
	r := &Redis{socket: filepath.Join(sockets, "redis.sock")}
	// A second server on a socket's path would take it over without a word: the lock keeps that out.
	r.Process, err = startProcess(command{
		name: "redis-server", path: program, args: c.args(r.socket), env: os.Environ(), dir: dir,
		logFile: filepath.Join(dir, "server.log"), lock: lock,
		exited: func() {
			lock.release()
			if filepath.Dir(sockets) != dir {
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
	c.Log.Info("Redis is ready", "dir", dir, "pid", r.Pid())
	return r, nil
}

func (c RedisConfig) args(socket string) []string {
	appendOnly := "no"
	if c.Persist {
		appendOnly = "yes"
	}
	return []string{
		"--port", "0", "--unixsocket", socket, "--unixsocketperm", "700", "--daemonize", "no",
		"--save", "", "--appendonly", appendOnly, "--appendfsync", "everysec",
	}
}

// URL returns the server's URL as go-redis reads it.
func (r *Redis) URL() string { return (&url.URL{Scheme: "unix", Path: r.socket}).String() }

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
