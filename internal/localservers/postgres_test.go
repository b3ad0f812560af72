package localservers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// One folder after another mishap: each subtest finds what the one before left.
func TestPostgresStartsAgain(t *testing.T) {
	t.Parallel()
	c := PostgresConfig{Dir: t.TempDir(), Ephemeral: true}
	p := startPostgres(t, c)
	url := p.URL("")
	run(t, url, "CREATE TABLE wallets AS SELECT 42 AS id")
	t.Run("AfterKill", func(t *testing.T) {
		p.Kill()
		p = startPostgres(t, c)
		if p.URL("") != url {
			t.Errorf("the URL changed from %s to %s", url, p.URL(""))
		}
	})
	t.Run("AfterKillWhilePaused", func(t *testing.T) {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		if err := p.Pause(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if err := conn.Ping(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a session of a paused server answers: %v", err)
		}
		p.Kill()
		p = startPostgres(t, c)
	})
	t.Run("AfterStopWhilePaused", func(t *testing.T) {
		if err := p.Pause(); err != nil {
			t.Fatal(err)
		}
		stopProcess(t, p.Process)
		p = startPostgres(t, c)
	})
	// A process id that came back must not keep PostgreSQL from starting: the stale file names another server.
	t.Run("WithAStalePid", func(t *testing.T) {
		stopProcess(t, p.Process)
		other := startRedis(t, RedisConfig{Dir: t.TempDir()})
		defer stopProcess(t, other.Process)
		data := filepath.Join(c.Dir, "data")
		content := fmt.Sprintf("%d\n%s\n0\n5432\n\n\n\nready\n", other.Pid(), data)
		if err := os.WriteFile(filepath.Join(data, "postmaster.pid"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		p = startPostgres(t, c)
	})
	if got := text(t, url, "SELECT id::text FROM wallets"); got != "42" {
		t.Errorf("the row: got %q", got)
	}
	if got := text(t, url, "SELECT current_setting('fsync')"); got != "off" {
		t.Errorf("fsync of an ephemeral server: %s", got)
	}
	stopProcess(t, p.Process)
}

func TestPostgresIgnoresAnUnfinishedInitdb(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	unfinished := filepath.Join(dir, "data.new")
	if err := os.Mkdir(unfinished, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(unfinished, "PG_VERSION"), []byte("15\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	stopProcess(t, startPostgres(t, PostgresConfig{Dir: dir, Ephemeral: true}).Process)
	if _, err := os.Stat(unfinished); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the unfinished data is still there: %v", err)
	}
}

// Where user namespaces are forbidden, root drops to another user. Everybody else starts it as usual.
func TestPostgresAsAnotherUser(t *testing.T) {
	parent, err := os.MkdirTemp("", "fg-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(parent) })
	for name, mode := range map[string]os.FileMode{"Enterable": 0o711, "Closed": 0o700} {
		t.Run(name, func(t *testing.T) {
			private := filepath.Join(parent, name)
			if err := os.MkdirAll(private, mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(parent, mode); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(private, "postgres")
			dropped := startPostgres(t, PostgresConfig{Dir: dir, dropUser: true, Ephemeral: true})
			t.Cleanup(func() {
				if home := (identity{}).homeOf(dir); home != dir {
					os.RemoveAll(home)
				}
			})
			run(t, dropped.URL(""), "CREATE TABLE wallets AS SELECT 42 AS id")
			if os.Geteuid() == 0 {
				if uid := ownerOf(t, dropped.Pid()); uid == 0 {
					t.Error("PostgreSQL runs as root")
				}
			}
			stopProcess(t, dropped.Process)

			// The data stays what and where it is when namespaces work again, and back.
			for _, dropUser := range []bool{false, true} {
				p := startPostgres(t, PostgresConfig{Dir: dir, dropUser: dropUser, Ephemeral: true})
				if got := text(t, p.URL(""), "SELECT id::text FROM wallets"); got != "42" {
					t.Errorf("got %q", got)
				}
				stopProcess(t, p.Process)
			}
		})
	}
}

func TestFindPostgres(t *testing.T) {
	t.Run("AbsentVersion", func(t *testing.T) {
		if b, err := findPostgres(t.Context(), 9); err == nil {
			t.Errorf("found %v", b)
		}
	})
	t.Run("MissingErrorNamesThePackages", func(t *testing.T) {
		want := "PostgreSQL's server is not installed: apt-get install postgresql (Debian, Ubuntu) or brew install postgresql@17 (Homebrew)"
		err := &MissingError{Program: "PostgreSQL's server", Apt: "postgresql", Homebrew: "postgresql@17"}
		if err.Error() != want {
			t.Errorf("got %s", err)
		}
	})
}

func startPostgres(t *testing.T, c PostgresConfig) *Postgres {
	t.Helper()
	p, err := StartPostgres(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func stopProcess(t *testing.T, p *Process) {
	t.Helper()
	if err := p.Stop(); err != nil {
		t.Error(err)
	}
}

func ownerOf(t *testing.T, pid int) uint32 {
	t.Helper()
	var s syscall.Stat_t
	if err := syscall.Stat(fmt.Sprintf("/proc/%d", pid), &s); err != nil {
		t.Fatal(err)
	}
	return s.Uid
}
