package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/localservers"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/stores/pgstore"
)

// diagnose runs fencegate doctor and returns its lines, without the blanks between their columns.
func diagnose(t *testing.T, args ...string) (code int, lines []string) {
	t.Helper()
	code, out, _ := command(t, append([]string{"doctor"}, args...)...)
	for line := range strings.Lines(out) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return code, lines
}

// wantLine fails the test unless a line begins with the one string and has the other.
func wantLine(t *testing.T, lines []string, begins, has string) {
	t.Helper()
	for _, line := range lines {
		if strings.HasPrefix(line, begins) && strings.Contains(line, has) {
			return
		}
	}
	t.Errorf("no line %q with %q in:\n%s", begins, has, strings.Join(lines, "\n"))
}

// patient is a ledger that the tests make ill.
func patient(t *testing.T) (url string, exec func(sql string)) {
	t.Helper()
	return patientIn(t, testenv.Ledger(t, func(url string) error {
		_, err := pgstore.Migrate(context.Background(), url)
		return err
	}))
}

func patientAt(t *testing.T, url string) (string, func(sql string)) {
	t.Helper()
	if _, err := pgstore.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	return patientIn(t, url)
}

func patientIn(t *testing.T, url string) (string, func(sql string)) {
	t.Helper()
	exec := func(sql string) {
		t.Helper()
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	exec(`CREATE TABLE wallets (id bigint PRIMARY KEY, balance numeric); SELECT fence.protect('wallets', 'wallet:{id}')`)
	return url, exec
}

func TestDoctorOfAHealthyDeployment(t *testing.T) {
	server, err := localservers.StartPostgres(t.Context(), localservers.PostgresConfig{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	url, exec := patientAt(t, server.URL(""))
	bucket := testenv.Bucket(t)
	exec("SELECT fence.protect_bucket('" + bucket.Bucket + "', '', 'report:{key}')")
	auth := filepath.Join(t.TempDir(), "auth.yaml")
	if err := os.WriteFile(auth, []byte("principals:\n  - name: a\n    secret_sha256: "+strings.Repeat("ab", 32)+"\n    admin: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, lines := diagnose(t, "--database-url="+url, "--redis-url="+testenv.Redis(t), "--auth-file="+auth,
		"--s3-endpoint="+bucket.Endpoint, "--s3-access-key="+bucket.AccessKey, "--s3-secret-key="+bucket.SecretKey)
	if code != 0 {
		t.Errorf("exit %d", code)
	}
	for _, line := range lines {
		if !strings.HasPrefix(line, "ok ") {
			t.Error(line)
		}
	}
	for _, what := range []string{"PostgreSQL version", "encoding", "pooler none", "isolation READ COMMITTED", "fsync", "full_page_writes", "synchronous_commit on",
		"clock of PostgreSQL", "connections", "ledger schema version", "rights on schema fence", "tokens left", "SQL writers", "table public.wallets lease wallet:{id}",
		"Redis a lease", "clock of Redis", "Redis version", "Redis role primary", "Redis eviction noeviction", "Redis persistence", "bucket " + bucket.Bucket, "auth file"} {
		wantLine(t, lines, "ok "+what, "")
	}
	ledger := execute(t, url, "SELECT ledger_id::text FROM fence.settings")
	wantLine(t, lines, "ok ledger", "id "+ledger)
	wantLine(t, lines, "ok Redis a lease", "below fencegate:"+ledger)
	if keys, err := redisClient(t, testenv.Redis(t)).Keys(t.Context(), "fencegate:"+ledger+"*").Result(); err != nil || len(keys) > 0 {
		t.Errorf("left behind: %v %v", keys, err)
	}
}

func TestDoctorFindsWhatIsWrongInPostgres(t *testing.T) {
	setting := func(s string) string {
		return "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET " + s + "', current_database()); END $$"
	}
	for _, c := range []struct{ name, change, begins, has string }{
		// The servers of tests have no fsync.
		{"Fsync", "SELECT 1", "FAIL fsync", "set fsync = on"},
		{"FullPageWrites", "SELECT 1", "warn full_page_writes", "off"},
		{"Isolation", setting("default_transaction_isolation = serializable"), "warn isolation", "serializable"},
		{"SynchronousCommit", setting("synchronous_commit = off"), "warn synchronous_commit", "off"},
		{"ReadOnly", setting("default_transaction_read_only = on"), "FAIL PostgreSQL", "read-only"},
		{"NoSettings", "DELETE FROM fence.settings", "FAIL isolation", "cannot be used"},
		{"OldSchema", "DELETE FROM fence.schema_version WHERE version_id > 6", "FAIL ledger", "fencegate migrate up"},
		{"NewSchema", "INSERT INTO fence.schema_version (version_id, is_applied) VALUES (99, true)", "warn ledger", "99"},
		{"Incompatible", "INSERT INTO fence.schema_version (version_id, is_applied) VALUES (99, true); UPDATE fence.settings SET compatible_from = 99", "FAIL ledger", "99 or newer"},
		{"NoLedger", "DROP SCHEMA fence CASCADE", "FAIL ledger", "no ledger"},
		{"FewTokens", "SELECT setval('fence.blocks', 900000000000)", "warn tokens left", "10 %"},
		{"NoTokens", "SELECT setval('fence.blocks', 999999000000)", "FAIL tokens left", "0.00 %"},
		{"AlteredKey", "ALTER TABLE wallets ALTER id TYPE numeric", "FAIL table public.wallets", "protect 'public.wallets' --lease 'wallet:{id}'"},
		{"TableGone", "DROP TABLE wallets", "FAIL table public.wallets", "not there"},
	} {
		t.Run(c.name, func(t *testing.T) {
			url, exec := patient(t)
			exec(c.change)
			code, lines := diagnose(t, "--database-url="+url)
			wantLine(t, lines, c.begins, c.has)
			if code != 1 { // fsync
				t.Errorf("exit %d", code)
			}
		})
	}
}

func TestDoctorOfRights(t *testing.T) {
	const owner, worker, stranger = "doctor_test_owner", "doctor_test_worker", "doctor_test_stranger"
	url := testenv.PostgresServer(t).URL("") // roles are the server's
	as := func(role string) string { return strings.Replace(url, "postgres@", role+"@", 1) }
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	defer conn.Close(t.Context())
	exec("CREATE ROLE " + owner + " LOGIN; CREATE ROLE " + worker + " LOGIN IN ROLE " + owner + "; CREATE ROLE " + stranger + " LOGIN")
	exec("DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO " + owner + "', current_database()); END $$")
	if _, err := pgstore.Migrate(t.Context(), as(owner)); err != nil {
		t.Fatal(err)
	}
	exec(`CREATE TABLE ro (id bigint PRIMARY KEY); CREATE TABLE few (id bigint PRIMARY KEY); CREATE TABLE nought (id bigint PRIMARY KEY);
		GRANT SELECT ON ro TO ` + owner + `; GRANT SELECT, UPDATE ON few TO ` + owner + `;
		SELECT fence.protect('ro', 'l'), fence.protect('few', 'l'), fence.protect('nought', 'l')`)
	_, lines := diagnose(t, "--database-url="+as(worker))
	wantLine(t, lines, "ok rights on schema fence", "member of its owner "+owner)
	wantLine(t, lines, "warn SQL writers", "no role fence_writer")
	wantLine(t, lines, "FAIL table public.nought", "SELECT, INSERT, UPDATE, DELETE")
	wantLine(t, lines, "FAIL table public.ro", "INSERT, UPDATE, DELETE")
	wantLine(t, lines, "warn table public.few", "lacks the right to INSERT, DELETE")
	exec("REVOKE USAGE ON SCHEMA fence FROM PUBLIC")
	_, lines = diagnose(t, "--database-url="+as(stranger))
	wantLine(t, lines, "FAIL rights on schema fence", stranger+" lacks USAGE on the schema")
	wantLine(t, lines, "FAIL rights on schema fence", "GRANT "+owner+" TO "+stranger)
	for _, right := range []struct{ grant, lacks string }{
		{"USAGE ON SCHEMA fence", "lacks DELETE on fence.blobs, INSERT on fence.blobs"},
		{"INSERT, UPDATE, DELETE ON fence.blobs", "lacks SELECT on fence.blobs"},
		{"SELECT ON ALL TABLES IN SCHEMA fence", "lacks SELECT on fence.blocks"},
		{"SELECT ON SEQUENCE fence.blocks", "EXECUTE on fence."},
	} {
		exec("GRANT " + right.grant + " TO " + stranger)
		_, lines = diagnose(t, "--database-url="+as(stranger))
		wantLine(t, lines, "FAIL rights on schema fence", right.lacks)
	}
	exec("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA fence TO " + stranger + "; REVOKE ALL ON FUNCTION fence.advance, fence.protect, fence.protect_bucket FROM " + stranger)
	_, lines = diagnose(t, "--database-url="+as(stranger))
	wantLine(t, lines, "ok rights on schema fence", "one by one")
	wantLine(t, lines, "ok tokens left", "")
	exec("GRANT SELECT, INSERT, UPDATE, DELETE ON few TO " + stranger)
	worksWith(t, as(stranger))

	exec("CREATE ROLE fence_writer; CREATE ROLE doctor_test_writer LOGIN IN ROLE fence_writer")
	_, lines = diagnose(t, "--database-url="+as(worker))
	wantLine(t, lines, "warn SQL writers", "both pg_signal_backend and pg_read_all_stats")
	exec("GRANT pg_signal_backend TO " + owner)
	_, lines = diagnose(t, "--database-url="+as(worker))
	wantLine(t, lines, "warn SQL writers", worker+", doctor_test_writer")
	exec("GRANT pg_read_all_stats TO " + owner)
	_, lines = diagnose(t, "--database-url="+as(worker))
	wantLine(t, lines, "ok SQL writers", "")
}

func TestDoctorOfAPooler(t *testing.T) {
	url, _ := patient(t)
	all := []string{"default_transaction_isolation", "intervalstyle", "bytea_output", "extra_float_digits", "lock_timeout", "statement_timeout",
		"idle_in_transaction_session_timeout", "tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count"}
	transaction, session := testenv.PgBouncer(t, url, "transaction"), testenv.PgBouncer(t, url, "session", all...)
	for _, c := range []struct{ name, url, told, begins, has string }{
		{"None", url, "", "ok pooler", "none"},
		{"ToldOfNone", url, "--pgbouncer", "warn pooler", "none"},
		{"Transaction", transaction, "--pgbouncer", "ok pooler", "transaction mode"},
		{"TransactionSession", transaction, "--pgbouncer", "ok isolation", ""},
		{"TransactionUntold", transaction, "", "FAIL pooler", "FENCEGATE_PGBOUNCER=true"},
		{"TransactionUntoldSession", transaction, "", "FAIL isolation", "FENCEGATE_PGBOUNCER=true"},
		{"Session", session, "--pgbouncer", "ok pooler", "session mode"},
		{"SessionUntold", session, "", "FAIL pooler", "session mode"},
		{"Statement", testenv.PgBouncer(t, url, "statement"), "--pgbouncer", "FAIL pooler", "pool_mode = transaction"},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := []string{"--database-url=" + c.url}
			if c.told != "" {
				args = append(args, c.told)
			}
			_, lines := diagnose(t, args...)
			wantLine(t, lines, c.begins, c.has)
		})
	}
}

func TestDoctorOfRedis(t *testing.T) {
	url, _ := patient(t)
	t.Run("Eviction", func(t *testing.T) {
		server := testenv.RedisServer(t)
		client := redisClient(t, server.URL())
		for _, c := range []struct{ memory, has string }{{"0", "without a memory limit"}, {"100mb", "leases pass on early"}} {
			if err := client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err(); err != nil {
				t.Fatal(err)
			}
			if err := client.ConfigSet(t.Context(), "maxmemory", c.memory).Err(); err != nil {
				t.Fatal(err)
			}
			_, lines := diagnose(t, "--database-url="+url, "--redis-url="+server.URL())
			wantLine(t, lines, "warn Redis eviction", c.has)
			wantLine(t, lines, "warn Redis eviction", "allkeys-lru")
		}
	})
	t.Run("Replica", func(t *testing.T) {
		server := testenv.RedisServer(t)
		if err := redisClient(t, server.URL()).Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
			t.Fatal(err)
		}
		_, lines := diagnose(t, "--database-url="+url, "--redis-url="+server.URL())
		wantLine(t, lines, "FAIL Redis", "cannot be taken")
	})
	t.Run("InProcess", func(t *testing.T) {
		_, lines := diagnose(t, "--database-url="+url, "--redis-url=redis://"+miniredis.RunT(t).Addr())
		wantLine(t, lines, "ok Redis", "a lease can be taken")
		for _, line := range lines {
			if strings.HasPrefix(line, "FAIL Redis") {
				t.Error(line)
			}
		}
	})
	t.Run("Down", func(t *testing.T) {
		_, lines := diagnose(t, "--database-url="+url, "--redis-url=redis://127.0.0.1:1")
		wantLine(t, lines, "FAIL Redis", "")
	})
}

func TestDoctorOfBlobsAndFiles(t *testing.T) {
	url, exec := patient(t)
	exec("SELECT fence.protect_bucket('no-such-bucket', '', 'l')")
	bucket := testenv.Bucket(t)
	s3 := []string{"--database-url=" + url, "--s3-endpoint=" + bucket.Endpoint, "--s3-access-key=" + bucket.AccessKey, "--s3-secret-key="}
	_, lines := diagnose(t, append(s3, s3[3]+bucket.SecretKey)...)
	wantLine(t, lines, "FAIL bucket no-such-bucket", bucket.Endpoint)
	dir := t.TempDir()
	_, lines = diagnose(t, "--database-url="+url, "--blob-dir="+dir, "--auth-file="+filepath.Join(dir, "none.yaml"))
	wantLine(t, lines, "ok bucket no-such-bucket", dir)
	wantLine(t, lines, "FAIL auth file", "none.yaml")
	_, lines = diagnose(t, "--database-url="+url)
	wantLine(t, lines, "FAIL blobs", "--s3-endpoint")
	for _, line := range lines {
		if strings.Contains(line, "no-such-bucket") {
			t.Error(line)
		}
	}
}

// A principal without a secret can only come with a certificate: serve refuses it where none is accepted.
func TestDoctorOfAPrincipalWithoutASecret(t *testing.T) {
	url, _ := patient(t)
	auth := filepath.Join(t.TempDir(), "auth.yaml")
	if err := os.WriteFile(auth, []byte("principals:\n  - name: a\n    admin: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, lines := diagnose(t, "--database-url="+url, "--auth-file="+auth)
	wantLine(t, lines, "FAIL auth file", "--tls-client-ca")
	_, lines = diagnose(t, "--database-url="+url, "--auth-file="+auth, "--tls-client-ca=ca.pem")
	wantLine(t, lines, "ok auth file", "")
}

func TestDoctorIsBounded(t *testing.T) {
	server := testenv.PostgresServer(t)
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	redis := testenv.RedisServer(t)
	if err := redis.Pause(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	code, lines := diagnose(t, "--database-url="+server.URL(""), "--redis-url="+redis.URL(), "--timeout=1s")
	if took := time.Since(began); code != 1 || took > 5*time.Second {
		t.Errorf("exit %d after %v", code, took)
	}
	wantLine(t, lines, "FAIL PostgreSQL", "")
	wantLine(t, lines, "FAIL Redis", "")
	for _, p := range []interface{ Resume() error }{server, redis} {
		if err := p.Resume(); err != nil {
			t.Error(err)
		}
	}
}

func redisClient(t *testing.T, url string) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	return client
}
