package e2e

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/e2e/history"
)

// The flags come after -args: go test ./e2e -run Faults -args -faults.seed=7 -faults.duration=60s
var (
	faultsSeed     = flag.Uint64("faults.seed", 0, "seed of the schedule of faults; 0 takes one from the clock")
	faultsDuration = flag.Duration("faults.duration", 60*time.Second, "how long faults are done")
	faultsCrashing = flag.Duration("faults.crashing", 0, "how long TestPostgresCrash runs; 0 is until enough was tried")
	faultsKeep     = flag.Bool("faults.keep", false, "keep the history of a run that passed, too")
	faultsRecheck  = flag.String("faults.recheck", "", "check the run that was kept in this folder once more, and run nothing")
)

func seedOfRun() uint64 {
	if *faultsSeed != 0 {
		return *faultsSeed
	}
	return uint64(time.Now().UnixNano()) % 1_000_000_000
}

// TestFaults (I1 to I7): clients, gateways, PostgreSQL, Redis and S3 are paused, killed, cut off, slowed down and robbed of
// their data while leases, rows and objects are used; whatever was answered can have happened, and what is left is what was
// answered.
func TestFaults(t *testing.T) {
	t.Parallel()
	if *faultsRecheck != "" {
		recheck(t, *faultsRecheck)
		return
	}
	f := runFaults(t, faultsConfig{seed: seedOfRun(), duration: *faultsDuration})
	f.report(t)
	// A run that hits nothing shows nothing.
	for _, missing := range f.stats.Below(leastOf(*faultsDuration)) {
		t.Errorf("seed %d: too little was tried: %s", f.config.seed, missing)
	}
}

// leastOf is what a run must have tried, in proportion to its length; on a quiet machine it does about four times as much.
func leastOf(d time.Duration) map[string]int {
	least := map[string]int{
		"granted": 120, "accepted": 300, "read": 150, "unknown": 30, "replayed": 12, "order checked": 30,
		"refused stale-token": 60, "refused spent-token": 10, "refused grant-ended": 10, "refused foreign-token": 2, "refused unissued-token": 5,
		"refused upload-expired": 3, "release done": 30, "renew done": 20, "tokens done": 10, "break done": 1,
	}
	for kind := range faultKinds() {
		least["fault "+kind] = 1
	}
	share := d.Seconds() / 60
	for name, n := range least {
		least[name] = int(float64(n) * min(share, 1))
	}
	return least
}

// TestPostgresCrash (I1, I2, I5, I7): PostgreSQL is killed with kill -9 and started again at once, several times under a load
// of writes, with fsync on. No accepted write is lost, and no token that was void is good again.
func TestPostgresCrash(t *testing.T) {
	t.Parallel()
	const crashes = 2
	// A quiet machine does much more than the test asks for, a slow one hardly that.
	c := faultsConfig{
		seed: seedOfRun(), duration: 40 * time.Second, durable: true,
		enough: map[string]int{"fault " + postgresKilled: 2 * crashes, "accepted": 100, "unknown": 30},
		faults: map[string]faultKind{postgresKilled: {weight: 1}}, faultGap: 1200 * time.Millisecond,
		after: voidTokensStayVoid,
	}
	if *faultsCrashing > 0 {
		c.duration, c.enough = *faultsCrashing, nil
	}
	f := runFaults(t, c)
	f.report(t)
	for _, missing := range f.stats.Below(map[string]int{"fault " + postgresKilled: crashes, "accepted": 50, "unknown": 5}) {
		t.Errorf("seed %d: too little was tried: %s", f.config.seed, missing)
	}
}

// voidTokensStayVoid tries the tokens of every grant but the newest of each lease again, on the row and as its own
// principal would: by a gateway without authentication they are all one.
func voidTokensStayVoid(r *faultsRig, url string, run *history.Run) {
	client := newClient(r.t, url)
	newest, tried := map[string]int64{}, 0
	for _, g := range run.Audit.Grants {
		newest[g.Lease] = max(newest[g.Lease], g.First)
	}
	for _, g := range run.Audit.Grants {
		if g.First == newest[g.Lease] {
			continue
		}
		tried++
		for _, token := range []int64{g.First, g.Blocks[len(g.Blocks)-1].Last} {
			answer := client.patch("jobs/"+strings.TrimPrefix(g.Lease, "job:"), token, `{"nonce":"void"}`)
			if code := answer.code(); code != "stale-token" {
				r.t.Errorf("token %d of %s, superseded by grant %d: %v (I2)", token, g.Lease, newest[g.Lease], answer)
			}
		}
	}
	if tried == 0 {
		r.t.Error("no grant was superseded: the test shows nothing")
	}
}

// recheck checks a run that was kept.
func recheck(t *testing.T, dir string) {
	run, err := history.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	f := &faultsResult{run: run, stats: run.Stats(), failures: run.CheckLeases(checkLimit)}
	f.violations, f.stats["order checked"] = run.CheckLedger()
	t.Log(f.stats)
	f.show(t)
}
