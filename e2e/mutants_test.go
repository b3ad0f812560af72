//go:build mutants

package e2e

import (
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

var mutantsDuration = flag.Duration("mutants.duration", 30*time.Second, "how long faults are done to a mutant")

// mutant is fencegate with one mistake.
type mutant struct {
	name string
	// functions are those of the ledger that are changed: what is replaced in each, and by what.
	functions []replacement
	// sql runs after that.
	sql string
	// env selects a mistake in the program.
	env []string
	// work are the weights of what clients do, and faults how often a fault comes, where they differ from the usual ones.
	work, faults map[string]int
}

type replacement struct{ function, old, new string }

// mutants are mistakes that somebody could make. Each was made by somebody.
func mutants() []mutant {
	eachAlone := "FENCEGATE_WRITE_LANES=0"
	return []mutant{
		{name: "NoSealCheck", functions: []replacement{{"fence.decide_grant", "WHEN p_token < g.first THEN 'stale-token'", "WHEN p_token < g.first THEN 'accepted'"}}},
		{name: "SealCheckWithoutLock", env: []string{eachAlone},
			functions: []replacement{{"fence.admit_resource", "PERFORM pg_advisory_xact_lock_shared(fence.lease_lock(p_lease));", ""}}},
		{name: "SealCheckWithoutLockInBatches", functions: []replacement{{"fence.admit_batch", "WHERE NOT pg_try_advisory_xact_lock_shared(l.lock)", "WHERE false"}}},
		{name: "MarkNotRaisedOnDelete", env: []string{eachAlone}, functions: []replacement{{"fence.admit_resource",
			"PERFORM set_config('fence.admitted', p_token || ' ' || p_resource, true);",
			"PERFORM set_config('fence.admitted', p_token || ' ' || p_resource, true), set_config('fence.before', coalesce(v_mark.token, 0)::text, true);"}},
			sql: markNotRaisedOnDelete},
		{name: "OneStatement", env: []string{eachAlone, "FENCEGATE_MUTANT=one-statement"}, work: map[string]int{"burst": 30}},
		{name: "TokenAfterTake", functions: []replacement{{"fence.decide_certificate", "WHEN coalesce(g.first, 0) <> p_floor THEN", "WHEN false THEN"}},
			faults: map[string]int{postgresSlow: 30}},
		{name: "FlipWithoutIntent", functions: []replacement{{"fence.publish", "WHERE b.id = p_body.blob AND b.state = 'pending'", "WHERE b.id = p_body.blob"}}},
		{name: "ReplayWithoutDigest", env: []string{eachAlone}, functions: []replacement{{"fence.admit_resource", "AND v_mark.digest = p_digest THEN", "THEN"}}},
		{name: "ReplayWithoutDigestInBatches", functions: []replacement{{"fence.admit_batch", "AND m.digest = w.digest\n", "\n"}}},
	}
}

// markNotRaisedOnDelete undoes the raising of a mark within the transaction that deletes the row, and the trace of it.
const markNotRaisedOnDelete = `
CREATE FUNCTION audit.leave_mark() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_admitted text := current_setting('fence.admitted');
BEGIN
    UPDATE fence.marks m SET token = current_setting('fence.before')::bigint WHERE m.resource = substr(v_admitted, position(' ' IN v_admitted) + 1);
    DELETE FROM audit.log WHERE kind = 'marks' AND xact = pg_current_xact_id();
    RETURN NULL;
END $$;
CREATE TRIGGER leave_mark AFTER DELETE ON jobs FOR EACH ROW EXECUTE FUNCTION audit.leave_mark();
`

// mutate is SQL that makes the mutant of a ledger. It fails when there is nothing to replace.
func (m mutant) mutate() string {
	var sql string
	for _, r := range m.functions {
		sql += fmt.Sprintf(`
DO $mutate$
DECLARE
    v_old text := (SELECT pg_get_functiondef(p.oid) FROM pg_proc p WHERE p.oid::regproc::text = %s);
    v_new text := replace(v_old, %s, %s);
BEGIN
    IF v_new IS NOT DISTINCT FROM v_old THEN
        RAISE EXCEPTION 'nothing to replace in %%', %[1]s;
    END IF;
    EXECUTE v_new;
END $mutate$;
`, "$m$"+r.function+"$m$", "$m$"+r.old+"$m$", "$m$"+r.new+"$m$")
	}
	return sql + m.sql
}

// TestMutants (the checkers can fail): each mistake is found by what clients saw or by what the ledger holds.
func TestMutants(t *testing.T) {
	built := filepath.Join(t.TempDir(), "fencegate")
	if out, err := exec.Command("go", "build", "-tags", "mutants", "-o", built, "github.com/fencegate/fencegate/cmd/fencegate").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			const tries = 3
			work := defaultWork()
			for name, weight := range m.work {
				work[name] = weight
			}
			faults := faultKinds()
			for name, weight := range m.faults {
				kind := faults[name]
				kind.weight = weight
				faults[name] = kind
			}
			for try := range uint64(tries) {
				f := runFaults(t, faultsConfig{
					seed: 1 + try, duration: *mutantsDuration, binary: built, afterMigrate: m.mutate(), env: m.env, work: work, faults: faults,
				})
				found := 0
				for _, v := range f.violations {
					if found++; found <= 3 {
						t.Log(v)
					}
				}
				for _, failure := range f.failures {
					if !failure.TimedOut {
						if found++; found <= 3 {
							t.Logf("%s:\n%s", failure.Lease, f.run.Timeline(failure.Shrink(shrinkLimit)))
						}
					}
				}
				if found > 0 {
					t.Logf("found with seed %d: %d violations, %d leases", f.config.seed, len(f.violations), len(f.failures))
					return
				}
			}
			t.Errorf("%d runs of %v found nothing", tries, *mutantsDuration)
		})
	}
}
