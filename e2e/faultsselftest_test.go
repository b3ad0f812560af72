package e2e

import (
	"reflect"
	"testing"
	"time"
)

// TestFaultsPlan: a seed is a schedule, a minute has every kind of fault, and two faults never meet in one place.
func TestFaultsPlan(t *testing.T) {
	for seed := range uint64(50) {
		c := faultsConfig{seed: seed, duration: time.Minute}.withDefaults()
		plan := planFaults(c)
		if !reflect.DeepEqual(plan, planFaults(c)) {
			t.Fatalf("seed %d: two schedules", seed)
		}
		seen, busy := map[string]bool{}, map[string]time.Duration{}
		for _, p := range plan {
			seen[p.kind] = true
			place := p.place()
			if busy[place] > p.at {
				t.Errorf("seed %d: %v while another is there", seed, p)
			}
			busy[place] = p.at + p.lasts
		}
		for kind := range faultKinds() {
			if !seen[kind] {
				t.Errorf("seed %d: no fault %q", seed, kind)
			}
		}
	}
}

// TestFaultsAreFound: the run has a defect put into the ledger, and the checkers find it. Others are built into the program
// and tried by make mutants.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	// A token below the newest grant's first is as good as any.
	const unsealed = `DO $do$
		DECLARE rule text := pg_get_functiondef('fence.decide_grant'::regproc);
		BEGIN EXECUTE replace(rule, 'WHEN p_token < g.first THEN ''stale-token''', 'WHEN p_token < g.first THEN ''accepted'''); END $do$`
	f := runFaults(t, faultsConfig{seed: seedOfRun(), duration: 6 * time.Second, afterMigrate: unsealed})
	if len(f.failures) == 0 || len(f.violations) == 0 {
		t.Errorf("seed %d: %d leases and %d invariants are broken, want some of both: %s", f.config.seed, len(f.failures), len(f.violations), f.stats)
	}
}
