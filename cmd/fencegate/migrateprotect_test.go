package main

import (
	"context"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/testenv"
)

func execute(t *testing.T, database, sql string) (value string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if err := conn.QueryRow(ctx, sql).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

func TestMigrateUpProtects(t *testing.T) {
	url := testenv.Database(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.Exec(t.Context(), `CREATE TABLE wallets (id bigint PRIMARY KEY); CREATE TABLE "a=b" (x int, y int, PRIMARY KEY (x, y))`)
	conn.Close(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const versions = "SELECT string_agg(kind || ' ' || name || ' ' || prefix || ' ' || template || ' ' || version, '; ' ORDER BY kind, name, prefix) FROM fence.protected"
	up := []string{"migrate", "up", "--database-url=" + url, "--protect=wallets=wallet:{id}", `--protect="a=b"=pair={x},{y}`,
		"--protect-bucket=reports=report={key}", "--protect-bucket=reports/daily/=daily:{key:2}"}

	code, out, errs := command(t, up...)
	for _, want := range []string{
		"applied 00001_ledger.sql", "table wallets is now protected by lease wallet:{id}", `table "a=b" is now protected by lease pair={x},{y}`,
		"bucket reports is now protected by lease report={key}", "bucket reports, keys below daily/ is now protected by lease daily:{key:2}",
	} {
		if code != 0 || !strings.Contains(out, want) {
			t.Fatalf("exit %d, want %q in:\n%s%s", code, want, out, errs)
		}
	}
	first := execute(t, url, versions)

	t.Run("AgainChangesNothing", func(t *testing.T) {
		code, out, errs := command(t, up...)
		if code != 0 || strings.Contains(out, "is now") || strings.Count(out, "is already protected") != 4 {
			t.Errorf("exit %d:\n%s%s", code, out, errs)
		}
		if again := execute(t, url, versions); again != first {
			t.Errorf("%s became %s", first, again)
		}
	})
	t.Run("AnotherTemplateReplaces", func(t *testing.T) {
		t.Setenv("FENCEGATE_MIGRATE_PROTECT", "\n  wallets=purse:{id}\n\n")
		t.Setenv("FENCEGATE_MIGRATE_PROTECT_BUCKET", "reports=report={key}\nreports/daily/=daily:{key:2}\n")
		code, out, errs := command(t, "migrate", "up", "--database-url="+url)
		if code != 0 || !strings.Contains(out, "table wallets is now protected by lease purse:{id}") || strings.Count(out, "is already") != 2 {
			t.Errorf("exit %d:\n%s%s", code, out, errs)
		}
	})
}

func TestMigrateUpRefuses(t *testing.T) {
	url := testenv.Database(t)
	for _, c := range []struct {
		name string
		args []string
		says string
	}{
		{"NoTemplate", []string{"--protect=wallets"}, "TABLE=TEMPLATE"},
		{"EmptyTemplate", []string{"--protect=wallets="}, "TABLE=TEMPLATE"},
		{"OpenQuote", []string{`--protect="wallets=x`}, "TABLE=TEMPLATE"},
		{"NoBucket", []string{"--protect-bucket==x"}, "BUCKET=TEMPLATE"},
		{"NoBucketTemplate", []string{"--protect-bucket=reports"}, "BUCKET=TEMPLATE"},
		{"AmbiguousPrefix", []string{"--protect-bucket=reports/dt=2026/=daily:{key}"}, "which = ends the prefix is not clear"},
		{"NoSuchTable", []string{"--protect=nowhere=x"}, "protect table nowhere: there is no table public.nowhere"},
		{"BadTemplate", []string{"--protect-bucket=reports=x:{id}"}, "names {id}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := command(t, append([]string{"migrate", "up", "--database-url=" + url}, c.args...)...)
			if code != exitFailed || !strings.Contains(errs, c.says) {
				t.Errorf("exit %d, want %q in:\n%s%s", code, c.says, out, errs)
			}
		})
	}
}

func TestAProgramThatIsTooOldSaysSo(t *testing.T) {
	url, exec := patient(t)
	exec("INSERT INTO fence.schema_version (version_id, is_applied) VALUES (99, true); UPDATE fence.settings SET compatible_from = 99")
	for _, args := range [][]string{{"migrate", "up"}, {"protect", "wallets", "--lease=purse:{id}"}} {
		t.Run(args[0], func(t *testing.T) {
			code, out, errs := command(t, append(args, "--database-url="+url)...)
			if code != exitFailed || !strings.Contains(errs, "schema version 99 or newer") || strings.Contains(out, "up to date") {
				t.Errorf("exit %d:\n%s%s", code, out, errs)
			}
		})
	}
	if template := execute(t, url, "SELECT template FROM fence.protected"); template != "wallet:{id}" {
		t.Error(template)
	}
}

func TestProtectRefusesAPooler(t *testing.T) {
	url, _ := patient(t)
	code, out, errs := command(t, "protect", "wallets", "--lease=purse:{id}", "--database-url="+testenv.PgBouncer(t, url, "transaction"))
	if code != exitFailed || !strings.Contains(errs, "give PostgreSQL's own URL") || strings.Contains(errs, "FENCEGATE_PGBOUNCER") {
		t.Errorf("exit %d:\n%s%s", code, out, errs)
	}
}

func TestMigrateUpWaits(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "postgres://u:hunter2@" + l.Addr().String() + "/d?sslmode=disable"
	l.Close()
	there := testenv.Database(t)
	for _, c := range []struct {
		name, url, wait string
		waits           bool
		code            int
		says            string
	}{
		{"UntilTheLimit", nobody, "300ms", true, exitFailed, "PostgreSQL does not answer after 300ms"},
		{"NotForADatabaseThatIsNotThere", strings.Replace(there, "?", "_not?", 1), "30s", false, exitFailed, "does not exist"},
		{"NotWithABadURL", "postgres://u:hunter2@[/d", "30s", false, 80, "cannot be parsed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			code, out, errs := command(t, "migrate", "up", "--database-url="+c.url, "--wait="+c.wait)
			if took := time.Since(began); code != c.code || !strings.Contains(errs, c.says) || took > 10*time.Second {
				t.Errorf("exit %d after %v, want %q in:\n%s%s", code, took, c.says, out, errs)
			}
			if waited := strings.Contains(errs, "waiting up to"); waited != c.waits || strings.Contains(errs, "hunter2") {
				t.Errorf("waited: %v, want %v:\n%s", waited, c.waits, errs)
			}
		})
	}
}

func TestWaitForPostgresThatComesLate(t *testing.T) {
	there, err := url.Parse(testenv.PostgresServer(t).URL("fencegate"))
	if err != nil {
		t.Fatal(err)
	}
	query := there.Query()
	link := filepath.Join(t.TempDir(), "late")
	folder := query.Get("host")
	query.Set("host", link)
	there.RawQuery = query.Encode()
	told := 0
	err = waitForPostgres(t.Context(), there.String(), time.Minute, func(error) {
		told++
		if err := os.Symlink(folder, link); err != nil {
			t.Error(err)
		}
	})
	if err != nil || told != 1 {
		t.Errorf("told %d times: %v", told, err)
	}
}
