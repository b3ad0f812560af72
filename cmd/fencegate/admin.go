package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/pprof"
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
func (f adminFlags) serve(ctx context.Context, a *assembly, log *slog.Logger) (*adminServer, error) {
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
	mux := http.NewServeMux()
	mux.Handle("/livez", a.Gateway)
	mux.Handle("/readyz", a.Gateway)
	if loopback {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	s := &adminServer{server: gateway.NewServer(mux, gateway.ServerConfig{Log: log}), served: make(chan struct{})}
	go func() {
		defer close(s.served)
		if err := s.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the operators' side has ended", "error", err)
		}
	}()
	log.Info("operators' side", "url", "http://"+l.Addr().String())
	return s, nil
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
