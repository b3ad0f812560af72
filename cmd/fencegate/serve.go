package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/fencegate/fencegate/gateway"
)

// drainTimeout bounds how long requests that are under way may take once the program was told to stop. It is longer
// than a write may take (gateway.Config.WriteTimeout).
const drainTimeout = 30 * time.Second

// listenLoopback listens on a loopback address: without authentication nobody else may reach the gateway.
func listenLoopback(ctx context.Context, addr string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("--listen %s: %w", addr, err)
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("--listen %s: without authentication the gateway listens on loopback only (127.0.0.1, [::1] or localhost)", addr)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--listen %s: %w (choose another address with --listen, or port 0 for a free one)", addr, err)
	}
	return l, nil
}

// serve answers requests and collects blobs until the context ends or one of them fails, then lets the requests that
// are under way finish.
func serve(ctx context.Context, l net.Listener, a *assembly, limits limitFlags, ready func(url string)) error {
	srv := gateway.NewServer(a, gateway.ServerConfig{MaxHeader: limits.MaxHeader, Log: a.log})
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	collected := make(chan struct{})
	go func() {
		defer close(collected)
		if err := a.collector.Run(ctx); err != nil && ctx.Err() == nil {
			stop(fmt.Errorf("collector: %w", err))
		}
	}()
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()

	url := "http://" + l.Addr().String()
	if err := waitReady(ctx, url); err != nil {
		stop(err)
	} else {
		ready(url)
	}
	var failed error
	select {
	case <-ctx.Done():
	case failed = <-served:
		stop(failed)
	}
	<-collected
	a.Drain()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	if err := srv.Shutdown(drain); err != nil {
		// Whoever is still there is cut off; a write without an answer is settled by repeating it.
		_ = srv.Close()
	}
	if cause := context.Cause(ctx); failed == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return failed
}

// waitReady asks /readyz until it answers 200.
func waitReady(ctx context.Context, url string) error {
	client := http.Client{Timeout: 2 * time.Second}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
		if err != nil {
			return err
		}
		if resp, err := client.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
