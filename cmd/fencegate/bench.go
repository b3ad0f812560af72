package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/fencegate/fencegate/internal/load"
)

// Limits of a measurement, which shares a deployment with others.
const (
	benchMaxTime    = 10 * time.Minute
	benchMaxClients = 1000
	benchMaxKeys    = 10_000
	benchMaxSize    = 64 << 20
	// benchMaxBodies bounds what a private gateway's folder takes, warm-up aside.
	benchMaxBodies = 2 << 30
)

type benchCmd struct {
	URL      string        `name:"url" env:"FENCEGATE_BENCH_URL" placeholder:"URL" help:"Measure this gateway instead of a private one. What is written has to be named then."`
	Auth     string        `name:"auth" env:"FENCEGATE_AUTH_TOKEN" secret:"" placeholder:"TOKEN" help:"Bearer token for --url. Better in the environment: others on this machine can see the command line."`
	Table    string        `env:"-" placeholder:"TABLE" help:"With --url: write rows of this protected table, quoted as in SQL where it needs it."`
	Keys     string        `env:"-" placeholder:"KEYS" help:"Keys of the rows, which must exist: FROM..TO, or keys as below /v1/rows, separated by spaces. At least one for each client, at most 10000. Without --url 1..256, or as many as --clients."`
	Body     string        `env:"-" placeholder:"JSON" help:"Columns to write, a JSON object; {n} stands for a running number. Without --url {\"balance\":{n}}."`
	Bucket   string        `env:"-" placeholder:"NAME" help:"Write objects of this bucket instead, one for each client."`
	Prefix   string        `env:"-" placeholder:"PREFIX" help:"With --bucket: what their keys begin with; fencegate-bench- and a number follow. Without --url bench/."`
	Size     int64         `env:"-" default:"4096" help:"With --bucket: bytes of an object, at most 67108864."`
	Refused  float64       `env:"-" default:"0" placeholder:"SHARE" help:"Share of the writes (0 to 1) to send with a token that must be refused."`
	Clients  int           `env:"-" default:"64" help:"How many write at once, each its next one when the last was answered. At most 1000."`
	Warmup   time.Duration `env:"-" default:"2s" help:"How long to write before measuring."`
	Duration time.Duration `env:"-" default:"10s" help:"How long to measure, at most 10m."`
	Requests int64         `env:"-" default:"0" help:"Measure no more writes than this, after those of the warm-up. 0 is any number."`
	PID      []int         `name:"pid" env:"-" placeholder:"PID" help:"With --url: processes of this machine whose CPU time to tell, with all below them: gateways, PostgreSQL's postmaster. Separated by commas."`
	JSON     string        `name:"json" env:"-" placeholder:"FILE" help:"Write the result to this file as JSON, too."`
	SVG      string        `name:"svg" env:"-" placeholder:"FILE" help:"Draw the latencies into this file."`
}

// Help is shown below the flags of fencegate bench.
func (benchCmd) Help() string {
	return `Measures fenced writes: clients take the leases of what they write, write with rising tokens, and give the leases back at the
end, also after Ctrl-C. Without --url it starts a private PostgreSQL, Redis and gateway in a temporary folder and measures
those:

  fencegate bench
  fencegate bench --bucket reports --size 65536 --clients 16

With --url it writes to what you name and to nothing else. Rows keep what was written last, so name rows that are made for it;
objects are deleted at the end, and their marks stay. A lease that somebody holds is not taken from him:

  fencegate bench --url http://127.0.0.1:8080 --table wallets --keys 1..1000 --body '{"balance":{n}}'
  fencegate bench --url http://127.0.0.1:8080 --bucket reports --prefix bench/

Exit code 1 when a write was refused that should not have been, or accepted that should have been refused.`
}

// Validate refuses what cannot be measured, before anything is started or written.
func (c *benchCmd) Validate() error {
	if c.URL != "" {
		if err := (gatewayFlags{URL: c.URL}).Validate(); err != nil {
			return err
		}
	}
	switch {
	case c.Clients < 1 || c.Clients > benchMaxClients:
		return fmt.Errorf("--clients is 1 to %d", benchMaxClients)
	case c.Duration <= 0 || c.Duration > benchMaxTime:
		return fmt.Errorf("--duration is at most %v, and positive", benchMaxTime)
	case c.Warmup < 0 || c.Warmup > benchMaxTime:
		return fmt.Errorf("--warmup is 0 to %v", benchMaxTime)
	case c.Requests < 0:
		return errors.New("--requests is not negative")
	case !(c.Refused >= 0 && c.Refused <= 1):
		return errors.New("--refused is a share, 0 to 1")
	case c.Size < 1 || c.Size > benchMaxSize:
		return fmt.Errorf("--size is 1 to %d bytes", benchMaxSize)
	case c.URL == "" && len(c.PID) > 0:
		return errors.New("--pid goes with --url: what the private servers use is told anyway")
	}
	if c.Bucket != "" || c.Prefix != "" {
		return c.validateObjects()
	}
	return c.validateRows()
}

func (c *benchCmd) validateObjects() error {
	switch {
	case c.Bucket == "":
		return errors.New("--prefix goes with --bucket")
	case c.Table != "" || c.Keys != "" || c.Body != "":
		return errors.New("--table, --keys and --body are of rows, --bucket and --prefix of objects: one of the two")
	case c.URL != "" && c.Prefix == "":
		return errors.New("with --url, name what is written: --prefix, below which the objects of the measurement are made")
	case strings.Contains(c.Bucket, "/"):
		return errors.New("--bucket is the name of a bucket alone")
	}
	return nil
}

func (c *benchCmd) validateRows() error {
	if c.URL != "" && (c.Table == "" || c.Keys == "" || c.Body == "") {
		return errors.New("with --url, name what is written: --table, --keys and --body, or --bucket and --prefix")
	}
	if c.URL == "" && c.Table != "" {
		return errors.New("--table goes with --url: the private gateway has its own")
	}
	_, err := c.target()
	return err
}

// Run measures a private gateway, or the one that is named.
func (c *benchCmd) Run(std *streams, rc *runContext) error {
	files, err := c.openFiles()
	if err != nil {
		return err
	}
	target, err := c.target()
	if err != nil {
		return err
	}
	meter, err := meterOf(c.PID)
	if err != nil {
		return err
	}
	b := &bench{cmd: c, std: std, target: target, meter: meter}
	if c.URL != "" {
		b.api = newBenchAPI(c.URL, c.Auth, c.Clients)
		fmt.Fprintf(std.err, "fencegate: writes %s through %s: %s\n", printable(target.text), printable(c.URL), target.after)
		err = b.measure(rc)
	} else {
		err = b.private(rc)
	}
	if err != nil && b.report == nil {
		return err
	}
	return errors.Join(err, b.tell(files))
}

// newBenchAPI speaks over as many connections as there are clients, also by TLS, where HTTP/2 would share one. It follows nobody who
// sends it elsewhere.
func newBenchAPI(url, auth string, clients int) *api {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.DisableCompression = 0, clients, true
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	a := newAPI(url, auth)
	a.client.Transport = t
	a.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return a
}

// bench is one measurement.
type bench struct {
	cmd    *benchCmd
	std    *streams
	api    *api
	target *benchTarget
	meter  *meter
	report *benchReport // of what was measured; nil while there is nothing
}

// measure takes the leases, makes the load and gives them back.
func (b *bench) measure(ctx context.Context) (err error) {
	defer b.api.client.CloseIdleConnections()
	if err := b.target.look(ctx, b.api, b.cmd.Clients); err != nil {
		return err
	}
	held, err := holdLeases(ctx, b.api, b.target.resources, b.cmd.Clients)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.close()) }()
	w := newBenchWriter(b.api, b.target, b.cmd.Clients, b.cmd.Refused)
	if b.target.objects {
		defer func() { err = errors.Join(err, w.remove(context.WithoutCancel(ctx))) }()
	}
	show := newProgress(b.std.err)
	plan := load.Plan{
		Clients: b.cmd.Clients, Warmup: b.cmd.Warmup, Duration: b.cmd.Duration, MaxOps: b.maxRequests(),
		Begin: b.meter.begin, Progress: show.tell, Every: show.every,
	}
	result := load.Run(ctx, plan, w.write)
	used := b.meter.end()
	show.end()
	if errors.Is(result.Err, load.ErrAllFailed) {
		return result.Err
	}
	b.report = newBenchReport(b, result, used, w.surprises.list())
	if errors.Is(result.Err, context.Canceled) {
		return nil // by whoever looks on: what was measured until then is told
	}
	return result.Err
}

// maxRequests bounds what a private gateway keeps of objects, as well as what the caller wants.
func (b *bench) maxRequests() int64 {
	if most := benchMaxBodies / b.cmd.Size; b.target.objects && b.cmd.URL == "" && (b.cmd.Requests == 0 || b.cmd.Requests > most) {
		return most
	}
	return b.cmd.Requests
}

// tell shows the result and writes the files. What should not have happened makes it an error.
func (b *bench) tell(files *benchFiles) error {
	b.report.table(b.std.out)
	if err := files.write(b.report); err != nil {
		return err
	}
	if b.report.FirstError != "" {
		fmt.Fprintf(b.std.err, "fencegate: %d writes failed, the first one: %s\n", b.report.Failed, printable(b.report.FirstError))
	}
	for _, s := range b.report.Surprises {
		fmt.Fprintf(b.std.err, "fencegate: %s\n", printable(s))
	}
	if len(b.report.Surprises) > 0 {
		return exitStatus(exitFailed)
	}
	return nil
}
