// Command fencegate is an HTTP gateway in front of PostgreSQL rows and S3 objects that accepts a write only when its
// fencing token is newer than every one accepted before.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/fencegate/fencegate/fence"
)

// Exit codes. A usage error is kong's own, 80.
const (
	exitOK     = 0
	exitFailed = 1
)

type cli struct {
	Serve   serveCmd   `cmd:"" help:"Serve a deployment: the gateway in front of your PostgreSQL, Redis and S3."`
	Dev     devCmd     `cmd:"" help:"Run a gateway with a private PostgreSQL and Redis, for trying and developing."`
	Demo    demoCmd    `cmd:"" help:"Play the pause: a worker is stopped past its lease and writes late, without fencing and with it."`
	Bench   benchCmd   `cmd:"" help:"Measure fenced writes: throughput, latency and CPU, of a private gateway or of yours."`
	Migrate migrateCmd `cmd:"" help:"Bring the ledger (schema fence) of a database up to date, or tell how it stands."`
	Protect protectCmd `cmd:"" help:"Put a table or a bucket under the protection of leases."`
	Objects objectsCmd `cmd:"" help:"Move objects into the ledger and out of it, look at versions and restore them."`
	Auth    authCmd    `cmd:"" help:"Make secrets for principals, and check the file that says what they may do."`
	Health  healthCmd  `cmd:"" help:"Ask a gateway whether it is ready; the health check of a container."`
	Doctor  doctorCmd  `cmd:"" help:"Check a deployment: a verdict for each thing that it depends on."`
	Run     runCmd     `cmd:"" help:"Run a command while holding a lease, as flock does with a file."`
	Lease   leaseCmd   `cmd:"" help:"Look at leases, break one, watch what happens to them."`
	Ledger  ledgerCmd  `cmd:"" help:"Keep the ledger right: what to do after a restore."`
	Version versionCmd `cmd:"" help:"Print the version."`
	Worker  workerCmd  `cmd:"" hidden:"" help:"One worker of the demo."`

	BenchGateway benchGatewayCmd `cmd:"" hidden:"" help:"The private gateway of bench."`
}

// streams are where a command reads and writes; a value, so that tests can give their own.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

func main() {
	// Failed calls are reported where they are made; go-redis's own lines would break the JSON on standard error.
	redis.SetLogger(&logging.VoidLogger{})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the program at once.
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, std streams) int {
	var c cli
	exit := -1
	parser, err := kong.New(&c,
		kong.Name("fencegate"),
		kong.Description("Fencing tokens, enforced: an HTTP gateway in front of PostgreSQL rows and S3 objects that refuses the late writes of paused workers."),
		kong.Writers(std.out, std.err),
		kong.Exit(func(code int) { exit = code }),
		kong.DefaultEnvars("FENCEGATE"),
		kong.UsageOnError(),
	)
	if err != nil {
		fmt.Fprintln(std.err, "fencegate:", err)
		return exitFailed
	}
	parsed, err := parser.Parse(args)
	if exit >= 0 {
		return exit // --help
	}
	if err != nil {
		parser.Stdout = std.err // how it is used is not what was asked for
		parser.FatalIfErrorf(err)
		return max(exit, exitFailed)
	}
	err = parsed.Run(&std, &runContext{ctx})
	var said exitStatus
	if errors.As(err, &said) {
		return int(said)
	}
	if err == nil || errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return exitOK
	}
	// What others have named, such as keys, may hold what a terminal obeys. Joined errors have a line each.
	lines := strings.Split(sayable(err), "\n")
	for i, line := range lines {
		lines[i] = printable(line)
	}
	fmt.Fprintln(std.err, "fencegate:", strings.Join(lines, "\n"))
	return exitFailed
}

// sayable is an error for people, with what was tried: one with a code says what is wrong in its own words, which its cause only repeats,
// unless that is the answer of a blob store.
func sayable(err error) string {
	var e *fence.Error
	if !errors.As(err, &e) || e.Code == fence.CodeInternal || e.Code == fence.CodeUnavailable {
		return err.Error()
	}
	said := e.Message
	if e.Code == fence.CodeStoreUnavailable && e.Err != nil {
		said += ": " + sayable(e.Err)
	}
	return strings.Replace(err.Error(), e.Error(), said, 1)
}

// runContext carries the program's context through kong, which binds values by their type.
type runContext struct{ context.Context }
