package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
)

// listenLoopback listens on a loopback address: without authentication nobody else may reach the gateway.
func listenLoopback(ctx context.Context, flag, addr string) (net.Listener, error) {
	loopback, err := isLoopback(addr)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", flag, addr, err)
	}
	if !loopback {
		return nil, fmt.Errorf("%s %s: without authentication the gateway listens on loopback only (127.0.0.1, [::1] or localhost); fencegate serve --auth-file lifts that", flag, addr)
	}
	return listen(ctx, flag, addr)
}

// listen listens on an address that a flag names.
func listen(ctx context.Context, flag, addr string) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w (choose another address with %s, or port 0 for a free one)", flag, addr, err, flag)
	}
	return l, nil
}

// isLoopback tells whether only this machine reaches an address host:port.
func isLoopback(addr string) (bool, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false, err
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback(), nil
}
