package localservers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
)

const loopback = "127.0.0.1"

// ports are those of one redis-server: for clients and, where it is a cluster's node, for the other nodes. Without
// TCP both are empty.
type ports struct{ client, bus string }

func (p ports) address() string {
	if p.client == "" {
		return ""
	}
	return net.JoinHostPort(loopback, p.client)
}

// listen is Redis's setting: 0 is no port.
func (p ports) listen() string {
	if p.client == "" {
		return "0"
	}
	return p.client
}

// onPorts starts a server on ports that are free, and on the same ones when it is started again: replicas, Sentinels and
// nodes know each other by address.
func onPorts[T any](ctx context.Context, dir string, start func(ports) (T, error)) (T, error) {
	file := filepath.Join(dir, "ports")
	var none T
	if content, err := os.ReadFile(file); err == nil {
		var p ports
		if _, err := fmt.Sscan(string(content), &p.client, &p.bus); err != nil {
			return none, fmt.Errorf("read %s: %w", file, err)
		}
		return start(p)
	}
	var failures []error
	for range portAttempts {
		p, err := freePorts()
		if err != nil {
			return none, err
		}
		if err := os.WriteFile(file, []byte(p.client+" "+p.bus), 0o600); err != nil {
			return none, err
		}
		server, err := start(p)
		if err == nil {
			return server, nil
		}
		failures = append(failures, err, os.Remove(file))
		var missing *MissingError
		if ctx.Err() != nil || errors.As(err, &missing) {
			break
		}
	}
	return none, errors.Join(failures...)
}

// freePorts holds both listeners until both are chosen, so that they differ.
func freePorts() (ports, error) {
	var found [2]string
	for i := range found {
		l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
		if err != nil {
			return ports{}, fmt.Errorf("free port: %w", err)
		}
		defer l.Close()
		if _, found[i], err = net.SplitHostPort(l.Addr().String()); err != nil {
			return ports{}, fmt.Errorf("free port: %w", err)
		}
	}
	return ports{client: found[0], bus: found[1]}, nil
}
