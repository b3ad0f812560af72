package e2e

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	stdlog "log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencegate/fencegate/e2e/history"
	"github.com/fencegate/fencegate/internal/localservers"
	"github.com/fencegate/fencegate/internal/testenv"
)

// faultsConfig says what is run and what is done to it.
type faultsConfig struct {
	seed     uint64
	duration time.Duration
	// binary is the program under test. Defaults to the one that TestMain built.
	binary string
	// enough ends the run before its duration is over, once so much was tried, by the names of history.Stats. Defaults to
	// nothing, which is never enough.
	enough map[string]int
	// afterMigrate is SQL to run once the ledger is there, before the first gateway.
	afterMigrate string
	// flags and env are added to those of the gateways.
	flags, env []string
	// work are the weights of what clients do. Defaults to defaultWork.
	work map[string]int
	// faults are the kinds of faults and how often they come. Defaults to faultKinds; empty for none.
	faults map[string]faultKind
	// faultGap is the mean time between the beginnings of two faults. Defaults to 350 ms.
	faultGap time.Duration
	// clients is the number of client processes, and workers that of goroutines in each. Default to 6 and 3.
	clients, workers int
	// leases is the number of leases, each of which protects a row and an object. Defaults to 12.
	leases int
	// anonymous leaves authentication out: all clients are one principal.
	anonymous bool
	// durable keeps fsync on.
	durable bool
	// after is called when all is over, with the servers still there.
	after func(r *faultsRig, url string, run *history.Run)
}

func (c faultsConfig) withDefaults() faultsConfig {
	if c.binary == "" {
		c.binary = binary
	}
	if c.work == nil {
		c.work = defaultWork()
	}
	if c.faults == nil {
		c.faults = faultKinds()
	}
	c.faultGap = cmp.Or(c.faultGap, defaultFaultGap)
	if c.clients == 0 {
		c.clients, c.workers = 6, 3
	}
	if c.leases == 0 {
		c.leases = 12
	}
	return c
}

// faultsRig is a deployment of two gateways with its servers and clients, every part of which can be disturbed.
type faultsRig struct {
	t        testing.TB
	config   faultsConfig
	dir      string
	data     string // PostgreSQL's folder
	start    int64
	group    sync.WaitGroup
	s3Server *localservers.S3
	bucket   testenv.S3
	badS3    *faultyS3
	gateways [gatewaysInAll]*faultsGateway
	clients  []*faultsClientProcess
	authFile string
	secrets  map[string]string // by principal

	mu       sync.Mutex
	postgres *localservers.Postgres // guarded by mu
	redis    [2]*localservers.Redis // guarded by mu
	primary  int                    // guarded by mu: which of them is
	faults   []history.Fault        // guarded by mu
	problems []string               // guarded by mu: what went wrong with the rig, or ended by itself
}

// newFaultsRig starts the servers and the gateways, and readies the database.
func newFaultsRig(t testing.TB, c faultsConfig) *faultsRig {
	t.Helper()
	r := &faultsRig{t: t, config: c, dir: t.TempDir(), secrets: map[string]string{}}
	// A database that another user runs must be able to enter.
	if err := os.Chmod(r.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if r.data = filepath.Join(r.dir, "postgres"); !c.durable {
		r.data = testenv.QuickDir(t)
	}
	t.Cleanup(r.stopServers)
	if err := r.startPostgres(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range r.redis {
		if err := r.startRedis(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.redis[1].Follow(t.Context(), r.redis[0]); err != nil {
		t.Fatal(err)
	}
	r.s3Server, r.bucket = testenv.S3Server(t)
	r.badS3 = newFaultyS3(t, r.bucket.Endpoint)
	r.readyLedger()
	if !c.anonymous {
		r.writeAuthFile()
	}
	proxies := newToxiproxy()
	network, address := r.postgresAddress()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i := range r.gateways {
		g := newFaultsGateway(r, proxies, fmt.Sprint("gateway", i+1))
		r.gateways[i] = g
		g.postgres().bridge.lead(network, address)
		g.redis().bridge.lead("tcp", r.redis[0].Address())
		g.s3().bridge.lead("tcp", strings.TrimPrefix(r.badS3.URL, "http://"))
		t.Cleanup(func() { _ = g.stop() })
		if err := g.start(ctx); err != nil {
			t.Fatalf("%v\n%s", err, tailOf(g.log))
		}
	}
	r.start = monotonic()
	return r
}

func (r *faultsRig) startPostgres(ctx context.Context) error {
	p, err := localservers.StartPostgres(ctx, localservers.PostgresConfig{Dir: r.data, Ephemeral: !r.config.durable})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.postgres = p
	return nil
}

func (r *faultsRig) startRedis(ctx context.Context, i int) error {
	s, err := localservers.StartRedis(ctx, localservers.RedisConfig{Dir: filepath.Join(r.dir, fmt.Sprint("redis", i)), TCP: true})
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.redis[i] = s
	return nil
}

func (r *faultsRig) stopServers() {
	r.group.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.postgres != nil {
		if err := r.postgres.Stop(); err != nil {
			r.t.Error(err)
		}
	}
	for _, s := range r.redis {
		if s == nil {
			continue
		}
		if err := s.Stop(); err != nil {
			r.t.Error(err)
		}
	}
}

// database is the URL that leads past all faults. It stays the same when the server is started again.
func (r *faultsRig) database() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.postgres.URL("")
}

func (r *faultsRig) postgresAddress() (network, address string) {
	config, err := pgconn.ParseConfig(r.database())
	if err != nil {
		r.t.Fatal(err)
	}
	return pgconn.NetworkAddress(config.Host, config.Port)
}

// readyLedger migrates, lets triggers write everything down, and protects one row and one object by each lease.
func (r *faultsRig) readyLedger() {
	r.t.Helper()
	migrate := exec.CommandContext(r.t.Context(), r.config.binary, "migrate", "up")
	migrate.Env = append(os.Environ(), "FENCEGATE_DATABASE_URL="+r.database())
	if out, err := migrate.CombinedOutput(); err != nil {
		r.t.Fatalf("migrate: %v\n%s", err, out)
	}
	execSQL(r.t, r.database(), auditSQL)
	execSQL(r.t, r.database(), "SELECT fence.protect('jobs', 'job:{id}')")
	execSQL(r.t, r.database(), "SELECT fence.protect_bucket($1, '', 'job:{key:1}')", r.bucket.Bucket)
	if r.config.afterMigrate != "" {
		execSQL(r.t, r.database(), r.config.afterMigrate)
	}
}

// writeAuthFile makes a principal of each client. The first may break leases.
func (r *faultsRig) writeAuthFile() {
	r.t.Helper()
	var b strings.Builder
	b.WriteString("principals:\n")
	for i := range r.config.clients {
		name := principalOf(i)
		r.secrets[name] = rand.Text()
		fmt.Fprintf(&b, "  - name: %s\n    secret_sha256: %x\n    admin: %t\n    allow:\n", name, sha256.Sum256([]byte(r.secrets[name])), i == 0)
		fmt.Fprintf(&b, "      - leases: [\"job:*\"]\n        verbs: [lease, read]\n")
		fmt.Fprintf(&b, "      - tables: [\"public.jobs\"]\n        buckets: [%q]\n        verbs: [read, write]\n", r.bucket.Bucket)
	}
	r.authFile = filepath.Join(r.dir, "principals.yaml")
	if err := os.WriteFile(r.authFile, []byte(b.String()), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

func principalOf(client int) string { return fmt.Sprint("worker-", client) }

// happened notes a fault.
func (r *faultsRig) happened(f history.Fault) {
	f.To = monotonic()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults = append(r.faults, f)
}

// problem notes what is neither a fault nor an answer: something is wrong with the rig, or the program ended by itself.
func (r *faultsRig) problem(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

func (r *faultsRig) seen() (faults []history.Fault, problems []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.faults), slices.Clone(r.problems)
}

func discardLog() *stdlog.Logger { return stdlog.New(io.Discard, "", 0) }

// tailOf returns the end of a log.
func tailOf(path string) string {
	content, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(content[max(0, len(content)-4000):])
}
