package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/jackc/pgx/v5"
)

//go:embed benchseed.sql
var benchSeedSQL string

// benchGatewayCmd is the private gateway of a measurement, with its servers: a process of its own, so that what it uses can be told
// from what the clients use. It tells its URL in a line, and ends when its standard input does, whatever became of its parent.
type benchGatewayCmd struct {
	Data   string `env:"-" required:""`
	Rows   int    `env:"-" required:""`
	Bucket string `env:"-"`
}

// Run serves until it is told to stop.
func (c *benchGatewayCmd) Run(std *streams, rc *runContext) (err error) {
	ctx, stop := context.WithCancelCause(rc)
	defer stop(nil)
	go func() { // ends with standard input, or the process
		_, _ = io.Copy(io.Discard, std.in)
		stop(context.Canceled)
	}()
	l, err := listenLoopback(ctx, "--listen", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	dev := &devCmd{Data: c.Data} // the limits are the packages' own defaults
	env, err := startDev(ctx, dev, devFront{}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, env.Close()) }()
	if err := c.seed(ctx, env.databaseURL); err != nil {
		return err
	}
	env.watch(func(err error) { stop(fmt.Errorf("a private server has ended: %w", err)) })
	return newServer(env.assembly, l, dev.limitFlags, atOnce()).run(ctx, func(url string) { fmt.Fprintln(std.out, url) })
}

// seed makes what is written.
func (c *benchGatewayCmd) seed(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	// The simple protocol takes several statements.
	if _, err := conn.Exec(ctx, benchSeedSQL, pgx.QueryExecModeSimpleProtocol, c.Rows, c.Bucket); err != nil {
		return fmt.Errorf("seed: %w", err)
	}
	return nil
}
