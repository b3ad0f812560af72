package pgstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/stores/pgstore"
)

// TestThroughPgBouncer runs the suites that say what the store promises behind a PgBouncer in transaction mode, with
// fewer sessions than the store has connections. newWorld knows them by this test's name.
func TestThroughPgBouncer(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"LedgerConformance": TestLedgerConformance, "Certify": TestCertify, "MoreTokens": TestMoreTokens,
		"ConcurrentBlocks": TestConcurrentBlocksNeverOverlap, "Rule": TestRule, "Sealed": TestSealedAtGrant,
		"CanonicalKeys": TestCanonicalKeys, "ProtectRefuses": TestProtectRefuses, "LeaseNames": TestLeaseNames,
		"Patch": TestPatch, "PutAndDelete": TestPutAndDelete, "CollidingColumns": TestColumnNamesThatCollide,
		"NumbersAsText": TestNumbersAsText, "Existence": TestExistence, "Suppressed": TestSuppressed, "ConcurrentWrites": TestConcurrentWrites,
		"Objects": TestObjects, "FlipsRace": TestFlipsRace, "Collection": TestCollection,
		"PutUnderAnotherName": TestPutUnderAnotherName, "AlteredTable": TestAlteredTable, "SettingsLeftBehind": TestSettingsLeftBehind,
		"DeferredConstraint": TestDeferredConstraintIsARefusal, "TemplateChange": TestTemplateChange, "StaleInsert": TestStaleInsertWhileDeleteIsInFlight,
		"Group": TestGroup, "GroupThatFails": TestGroupThatFails, "GroupOfUnknownOutcome": TestGroupOfUnknownOutcome, "SealedInGroups": TestSealedAtGrantInGroups,
		"Events": TestEvents, "EventsOutOfOrder": TestEventsThatCommitOutOfOrder, "Refusals": TestRefusals, "PruneEvents": TestPruneEvents,
		"AlteredSessions": TestManyAlteredSessions, "ExhaustedSequence": TestExhaustedSequence, "Admit": TestAdmit,
		"Commit": TestCommitSpansLeases, "CommitIsAllOrNothing": TestCommitIsAllOrNothing, "Insert": TestInsert, "InsertUnderARole": TestInsertUnderARole,
		"RowSecurity": TestRowSecurity, "AlteredInTraffic": TestAlteredInTheMiddleOfTraffic,
		"Batch": TestBatchIsOneTransaction, "BatchThatFails": TestBatchThatFails, "BatchUnderARole": TestBatchUnderARole, "TogetherAsAlone": TestTogetherAsAlone,
		"ObjectsTogether": TestObjectsTogetherAsAlone,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}

// What a session of PostgreSQL's defaults to, or what others left in it, does not reach a transaction of the store's.
func TestPooledSettings(t *testing.T) {
	w := newWorld(t)
	url := w.url
	w.exec(`DO $$ BEGIN
		EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable', current_database());
		EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database());
		EXECUTE format('ALTER DATABASE %I SET intervalstyle = iso_8601', current_database());
		EXECUTE format('ALTER DATABASE %I SET bytea_output = escape', current_database());
		EXECUTE format('ALTER DATABASE %I SET timezone = ''Asia/Tokyo''', current_database());
		EXECUTE format('ALTER DATABASE %I SET datestyle = ''German''', current_database());
		EXECUTE format('ALTER DATABASE %I SET lock_timeout = ''1h''', current_database()); END $$;
		CREATE TABLE seen (id bigint PRIMARY KEY, v int, said text);
		INSERT INTO seen VALUES (1, 0); SELECT fence.protect('seen', 'seen');
		CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			NEW.said := (SELECT string_agg(name || '=' || current_setting(name), ' ' ORDER BY name) FROM unnest('{transaction_isolation,synchronous_commit,
				IntervalStyle,bytea_output,TimeZone,DateStyle,lock_timeout,statement_timeout,idle_in_transaction_session_timeout}'::text[]) name);
			RETURN NEW; END $$;
		CREATE TRIGGER look BEFORE UPDATE ON seen FOR EACH ROW EXECUTE FUNCTION look()`)
	// Together with others a write waits for locks for a shorter time.
	s, err := pgstore.Open(pgstore.Config{URL: testenv.PgBouncer(t, url, "transaction"), Pooled: true, Lanes: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	row, err := s.WriteRow(t.Context(), patch("seen", "1", `{"v":1}`, w.grant("seen", "p", "a").First()))
	wantCode(t, err, fence.CodeAccepted)
	for _, want := range []string{"transaction_isolation=read committed", "synchronous_commit=local", "IntervalStyle=postgres", "bytea_output=hex",
		"TimeZone=UTC", "DateStyle=ISO, YMD", "lock_timeout=5s", "statement_timeout=10s", "idle_in_transaction_session_timeout=5s"} {
		if !strings.Contains(string(row.JSON), want) {
			t.Errorf("no %s in %s", want, row.JSON)
		}
	}
}

// A transaction that fails leaves its session to the others.
func TestPooledFailureGivesTheSessionBack(t *testing.T) {
	w := newWorld(t)
	url := w.url
	s, err := pgstore.Open(pgstore.Config{URL: testenv.PgBouncer(t, url, "transaction"), Pooled: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	g := w.grant("wallet:42", "p", "a")
	sessions := func() string {
		return w.text("SELECT string_agg(pid::text, ' ' ORDER BY pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'fencegate'")
	}
	var before string
	for i := range 20 {
		_, err := s.WriteRow(t.Context(), patch("wallets", "42", `{"balance":-1}`, g.First()+fence.Token(i)))
		wantCode(t, err, fence.CodeConstraintViolation)
		if i == 0 {
			before = sessions()
		}
	}
	if after := sessions(); after != before {
		t.Errorf("sessions %s, before the failures %s", after, before)
	}
}

func TestUnannouncedPooler(t *testing.T) {
	url := newWorld(t).url
	ignored := []string{"default_transaction_isolation", "intervalstyle", "bytea_output", "extra_float_digits", "lock_timeout", "statement_timeout",
		"idle_in_transaction_session_timeout", "tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "search_path"}
	for name, pooler := range map[string]string{
		"RefusesSettings": testenv.PgBouncer(t, url, "transaction"),
		"IgnoresSettings": testenv.PgBouncer(t, url, "transaction", ignored...),
		"Session":         testenv.PgBouncer(t, url, "session", ignored...),
	} {
		t.Run(name, func(t *testing.T) {
			s, err := pgstore.Open(pgstore.Config{URL: pooler})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			err = s.Ready(t.Context())
			if wantCode(t, err, fence.CodeUnavailable); !errors.Is(err, pgstore.ErrPooler) || !strings.Contains(err.Error(), "FENCEGATE_PGBOUNCER=true") {
				t.Errorf("ready: %v", err)
			}
			if _, err := pgstore.Migrate(t.Context(), pooler); !errors.Is(err, pgstore.ErrMigrateDirectly) {
				t.Errorf("migrate: %v", err)
			}
			if list, err := pgstore.MigrationStatus(t.Context(), pooler); err != nil || !list[len(list)-1].Applied {
				t.Errorf("status: %v %v", list, err)
			}
		})
	}
	direct, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close(t.Context())
	if pooled, err := pgstore.Pooler(t.Context(), direct); err != nil || pooled {
		t.Errorf("a direct connection is taken for a pooler's: %v", err)
	}
}
