package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/e2e/history"
)

const (
	// checkLimit bounds the check of one lease.
	checkLimit = 60 * time.Second
	// shrinkLimit bounds the search for a short timeline.
	shrinkLimit = 30 * time.Second
	// healthy is how long clients work after the last fault: what was left open is settled then.
	healthy = 2 * time.Second
	// finishLimit is how long a client gets to end what it is at.
	finishLimit = 20 * time.Second
)

// faultsResult is what a run gave.
type faultsResult struct {
	config     faultsConfig
	run        *history.Run
	stats      history.Stats
	failures   []history.Failure
	violations []history.Violation
	problems   []string
	logs       map[string]string // of the gateways
	plan       []planned
	took       time.Duration // of the checks
}

// runFaults runs clients over two gateways, disturbs everything by the schedule of the seed, and checks what came of it. It
// fails the test only where the run itself could not be made; what was found is told by the result.
func runFaults(t testing.TB, c faultsConfig) *faultsResult {
	t.Helper()
	c = c.withDefaults()
	r := newFaultsRig(t, c)
	wall := wallClock()
	plan := planFaults(c)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for i := range c.clients {
		client := &faultsClientProcess{rig: r, number: i}
		r.clients = append(r.clients, client)
		t.Cleanup(client.kill)
		if err := client.start(); err != nil {
			t.Fatal(err)
		}
	}
	var actors sync.WaitGroup
	acting, still := context.WithCancel(ctx)
	if !c.durable {
		actors.Go(func() { r.holdRows(acting) })
		actors.Go(func() { r.giveUpBlobs(acting) })
	}
	began := time.Now()
	disturbed, calm := context.WithCancel(ctx)
	defer calm()
	if len(c.enough) > 0 {
		actors.Go(func() { r.calmAfter(acting, c.enough, calm) })
	}
	r.disturb(disturbed, plan)
	wait(disturbed, time.Until(began.Add(c.duration))-healthy)
	still()
	actors.Wait()
	wait(ctx, healthy)
	return r.conclude(plan, wall)
}

// calmAfter calls calm once enough was tried.
func (r *faultsRig) calmAfter(ctx context.Context, enough map[string]int, calm func()) {
	for wait(ctx, time.Second); ctx.Err() == nil; wait(ctx, time.Second) {
		run, err := r.toldRun()
		if err != nil {
			r.problem("what was told so far: %v", err)
			return
		}
		if run.Faults, _ = r.seen(); len(run.Stats().Below(enough)) == 0 {
			calm()
			return
		}
	}
}

// toldRun has the operations that the clients told of.
func (r *faultsRig) toldRun() (run *history.Run, err error) {
	var lines []history.Line
	for _, c := range r.clients {
		lines = append(lines, c.told()...)
	}
	run = &history.Run{Start: r.start}
	run.Ops, err = history.Join(lines)
	return run, err
}

// conclude ends clients and gateways, reads what is left, and checks.
func (r *faultsRig) conclude(plan []planned, wall int64) *faultsResult {
	t := r.t
	t.Helper()
	var ending sync.WaitGroup
	for _, c := range r.clients {
		ending.Go(func() { c.finish(finishLimit) })
	}
	ending.Wait()
	// A gateway that has drained has no request under way.
	for _, g := range r.gateways {
		ending.Go(func() { r.must("end", g.stop()) })
	}
	ending.Wait()
	run, err := r.toldRun()
	if err != nil {
		t.Fatal(err)
	}
	if drift := wallClock() - wall; drift < -int64(20*time.Millisecond) || drift > int64(20*time.Millisecond) {
		r.problem("the wall clock jumped by %v: the order of grants cannot be told", time.Duration(drift))
	}
	run.Audit = readAudit(t, r.database(), r.bucket.Bucket, wall)
	plain := r.plainGateway()
	run.Finals = r.finals(plain.url)
	if r.config.after != nil {
		r.config.after(r, plain.url, run)
	}
	result := &faultsResult{config: r.config, run: run, plan: plan, logs: map[string]string{}}
	run.Faults, result.problems = r.seen()
	for _, secret := range r.secrets {
		overheard.secret("a bearer secret", secret)
	}
	for _, g := range r.gateways {
		result.logs[g.name] = g.log
		overheard.arguments(g.args())
		if log, err := os.ReadFile(g.log); err != nil {
			t.Error(err)
		} else {
			overheard.hears(g.name+" of "+t.Name(), string(log))
		}
	}
	began := time.Now()
	result.stats = run.Stats()
	result.failures = run.CheckLeases(checkLimit)
	result.violations, result.stats["order checked"] = run.CheckLedger()
	result.took = time.Since(began)
	return result
}

// finals reads every resource by a gateway.
func (r *faultsRig) finals(url string) []history.Final {
	t := r.t
	t.Helper()
	var finals []history.Final
	client := newClient(t, url)
	for lease := range r.config.leases {
		for _, resource := range []string{rowOf(lease), objectIn(r.bucket.Bucket, lease)} {
			answer, err := client.try(t.Context(), http.MethodGet, "/v1/"+resource, nil)
			f := history.Final{Resource: resource, Mark: answer.mark()}
			switch {
			case err != nil:
				f.Problem = err.Error()
			case answer.ok():
				out := &history.Reply{Mark: answer.mark()}
				if strings.HasPrefix(resource, "rows/") {
					readRow(answer, out)
				} else {
					readObject(answer, out)
				}
				if f.Value = out.Value; out.Torn {
					f.Problem = out.Note
				}
			case answer.code() != "not-found":
				f.Problem = answer.String()
			}
			finals = append(finals, f)
		}
	}
	return finals
}

// plainGateway starts another gateway, without authentication, on the servers themselves.
func (r *faultsRig) plainGateway() *program {
	primary, _ := r.redisServers()
	p := &program{t: r.t}
	p.launch(nil, "serve", "--listen=127.0.0.1:0", "--drain-delay=0s", "--database-url="+r.database(), "--redis-url="+primary.URL(),
		"--s3-endpoint="+r.bucket.Endpoint, "--s3-region="+r.bucket.Region, "--s3-access-key="+r.bucket.AccessKey, "--s3-secret-key="+r.bucket.SecretKey)
	p.waitReady()
	return p
}

// broken tells whether the checkers found anything.
func (f *faultsResult) broken() bool { return len(f.failures)+len(f.violations) > 0 }

// report fails the test when anything was found, with the seed, the shortest timeline, and a folder with everything.
func (f *faultsResult) report(t testing.TB) {
	t.Helper()
	t.Logf("seed %d, %v: %s; checked in %v", f.config.seed, f.config.duration, f.stats, f.took.Round(time.Millisecond))
	for _, p := range slices.Concat(f.problems, f.run.Strange(expectedCodes()...)) {
		t.Errorf("seed %d: %s", f.config.seed, p)
	}
	if !f.broken() && !t.Failed() {
		if *faultsKeep {
			t.Logf("everything is in %s", f.keep(t))
		}
		return
	}
	dir := f.keep(t)
	t.Errorf("seed %d: %d leases and %d invariants are broken; everything is in %s (go test ./e2e -run 'TestFaults$' -args -faults.recheck=%s)",
		f.config.seed, len(f.failures), len(f.violations), dir, dir)
	f.show(t)
}

// expectedCodes are those that clients of this run may be answered. Those without a code are of net/http, for a request of
// which it got a part.
func expectedCodes() []string {
	return []string{
		"stale-token", "spent-token", "grant-ended", "unissued-token", "foreign-token", "lease-held", "lease-lost", "upload-expired",
		"not-found", "write-suppressed", "contention", "overloaded", "unavailable", "unreachable", "invalid-request", "no code, status 400", notGuilty,
	}
}

// show tells what was found.
func (f *faultsResult) show(t testing.TB) {
	t.Helper()
	const most = 12
	for i, v := range f.violations {
		if i == most {
			t.Errorf("and %d more", len(f.violations)-most)
			break
		}
		t.Error(v)
	}
	for i, failure := range f.failures {
		if failure.TimedOut {
			t.Errorf("%s: the check did not end within %v", failure.Lease, checkLimit)
			continue
		}
		if i < 3 {
			t.Errorf("%s: its operations cannot have happened one after the other:\n%s", failure.Lease, f.run.Timeline(failure.Shrink(shrinkLimit)))
		}
	}
}

// keep saves the history, the plan and the logs in a folder that stays.
func (f *faultsResult) keep(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fencegate-faults-")
	if err == nil {
		err = f.run.Save(dir)
	}
	var plan strings.Builder
	for _, p := range f.plan {
		fmt.Fprintln(&plan, p)
	}
	if err == nil {
		err = os.WriteFile(dir+"/plan.txt", []byte(plan.String()), 0o600)
	}
	for name, log := range f.logs {
		content, readErr := os.ReadFile(log)
		if err == nil && readErr == nil {
			err = os.WriteFile(dir+"/"+name+".log", content, 0o600)
		}
	}
	if err != nil {
		t.Errorf("keep the run: %v", err)
	}
	return dir
}
