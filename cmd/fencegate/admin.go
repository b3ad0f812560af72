package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/fencegate/fencegate/gateway"
)

// adminFlags say where the operators' side is served.
type adminFlags struct {
	AdminListen string `placeholder:"ADDR" help:"Address of /metrics, /livez, /readyz and /debug/pprof/, such as 127.0.0.1:8081. Off by default. pprof is served on loopback only."`
}

// adminServer serves the operators' side until it is closed; it outlasts the drain of the gateway.
type adminServer struct {
	server *http.Server
	served chan struct{}
}

// serve starts the operators' side, if it is wanted.
func (f adminFlags) serve(ctx context.Context, a *assembly, tell *telemetry, log *slog.Logger) (*adminServer, error) {
	if f.AdminListen == "" {
		return &adminServer{}, nil
	}
	loopback, err := isLoopback(f.AdminListen)
	if err != nil {
		return nil, fmt.Errorf("--admin-listen %s: %w", f.AdminListen, err)
	}
	l, err := listen(ctx, "--admin-listen", f.AdminListen)
	if err != nil {
		return nil, err
	}
	s := &adminServer{server: gateway.NewServer(adminHandler(a.Gateway, tell.metrics.Handler(), loopback), gateway.ServerConfig{Log: log}), served: make(chan struct{})}
	go func() {
		defer close(s.served)
		if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the operators' side has ended", "error", err)
		}
	}()
	log.Info("operators' side", "url", "http://"+l.Addr().String())
	return s, nil
}

// adminHandler serves health and metrics, and on loopback what lets one look into the process, to local clients only.
func adminHandler(health, metrics http.Handler, loopback bool) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /livez", asLocal(health))
	mux.Handle("GET /readyz", asLocal(health))
	mux.Handle("GET /metrics", metrics)
	if !loopback {
		return mux
	}
	// Without cmdline, which shows the secrets that were given as flags.
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return toLocal(mux)
}

// asLocal lets a probe, which comes by the pod's address, reach the health of a gateway that listens to local clients
// only, such as one beside its worker in a pod.
func asLocal(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local := r.Clone(r.Context())
		local.Host = "localhost"
		local.Header.Del("Origin")
		h.ServeHTTP(w, local)
	})
}

// toLocal refuses requests for other hosts: a web page can make a name of its own lead to this machine.
func toLocal(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(strings.Trim(host, "[]"), "80")
		}
		if local, err := isLoopback(host); err != nil || !local {
			http.Error(w, "this is for local clients: 127.0.0.1, [::1] or localhost", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Close ends it; a scrape under way gets a second.
func (s *adminServer) Close() {
	if s.server == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		_ = s.server.Close()
	}
	<-s.served
}
