package localservers

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// EtcdConfig says where an etcd keeps its data.
type EtcdConfig struct {
	// Dir is the server's folder. It is made if absent and never shared with anything else. Required.
	Dir string
	// Log hears what is started and where. Defaults to nothing.
	Log *slog.Logger
}

// Etcd is a running etcd of one member on loopback ports. Its data is durable. To start it again after Stop or Kill, call
// StartEtcd on the same folder: its URL stays the same.
type Etcd struct {
	*Process
	ports ports
}

// StartEtcd starts the etcd of a folder and returns when it has elected itself and answers. Without the program the error is
// a *MissingError. The context bounds the start only.
func StartEtcd(ctx context.Context, c EtcdConfig) (*Etcd, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	dir, err := makeFolder(c.Dir, 0o700)
	if err != nil {
		return nil, err
	}
	program, err := exec.LookPath("etcd")
	if err != nil {
		return nil, &MissingError{Program: "etcd", Apt: "etcd-server", Homebrew: "etcd"}
	}
	return onPorts(ctx, dir, func(p ports) (*Etcd, error) { return startEtcd(ctx, program, dir, p, c.Log) })
}

func startEtcd(ctx context.Context, program, dir string, p ports, log *slog.Logger) (*Etcd, error) {
	lock, err := lockFolder(ctx, dir, dir)
	if err != nil {
		return nil, err
	}
	e := &Etcd{ports: p}
	e.Process, err = startProcess(command{
		name: "etcd", path: program, args: e.args(dir), env: etcdEnvironment(), dir: dir,
		logFile: filepath.Join(dir, "server.log"), lock: lock, exited: lock.release,
	})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(lock.record(e.Pid()), e.waitReady(ctx, func() bool { return e.healthy(ctx) })); err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	log.Info("etcd is ready", "dir", dir, "pid", e.Pid())
	return e, nil
}

func (e *Etcd) args(dir string) []string {
	client, peer := "http://"+e.ports.address(), "http://"+net.JoinHostPort(loopback, e.ports.bus)
	return []string{
		"--name", "local", "--data-dir", filepath.Join(dir, "data"),
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "local=" + peer,
		// The only member elects itself after this time, when it starts on data that it had before.
		"--heartbeat-interval", "20", "--election-timeout", "200",
		"--logger", "zap", "--log-outputs", "stderr", "--log-level", "warn",
	}
}

// etcdEnvironment leaves out what etcd would take for its own settings.
func etcdEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ETCD_") })
}

// URL returns the server's URL as etcd's own tools write it.
func (e *Etcd) URL() string { return "http://" + e.Address() }

// Address returns host:port.
func (e *Etcd) Address() string { return e.ports.address() }

// healthy tells whether the member has a leader and can commit.
func (e *Etcd) healthy(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, e.URL()+"/health", nil)
	if err != nil {
		return false
	}
	// A connection that is kept would outlive the server.
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	var state struct{ Health string }
	return json.NewDecoder(response.Body).Decode(&state) == nil && state.Health == "true"
}
