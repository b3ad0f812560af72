package e2e

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// What was accepted is there after kill -9 and a start on the same folder, with the same settings, and the lease's next
// token is higher (I1, I4). As root too, whose PostgreSQL runs as somebody else, and as an ordinary user.
func TestDevComesBackAfterKill(t *testing.T) {
	t.Run("AsThisUser", func(t *testing.T) {
		t.Parallel()
		comesBack(t, filepath.Join(t.TempDir(), "data"), nil)
	})
	t.Run("AsAnOrdinaryUser", func(t *testing.T) {
		t.Parallel()
		if os.Geteuid() != 0 {
			return // AsThisUser is one
		}
		uid, gid := nobody(t)
		// The folders that testing makes are the user's alone.
		folder, err := os.MkdirTemp("", "fencegate-e2e-nobody-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(folder) })
		if err := os.Chown(folder, int(uid), int(gid)); err != nil {
			t.Fatal(err)
		}
		comesBack(t, filepath.Join(folder, "data"), func(cmd *exec.Cmd) {
			cmd.Dir = folder
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: gid}
		})
	})
}

func nobody(t *testing.T) (uid, gid uint32) {
	t.Helper()
	u, err := user.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []struct {
		text string
		into *uint32
	}{{u.Uid, &uid}, {u.Gid, &gid}} {
		n, err := strconv.ParseUint(id.text, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		*id.into = uint32(n)
	}
	return uid, gid
}

func comesBack(t *testing.T, data string, adjust func(*exec.Cmd)) {
	first := launch(t, data, adjust)
	first.waitReady()
	c := first.client()
	held := c.acquire("wallet:42", time.Second)
	c.patch("wallets/42", held.Token, `{"balance":90}`).want(t, "")
	report := c.acquire("report:a.txt", time.Hour)
	c.put("reports/a.txt", report.Token, []byte("a report")).want(t, "")
	before := first.env()
	first.kill()

	second := launch(t, data, adjust)
	second.waitReady()
	c = second.client()
	if balance, mark := c.balance("wallets/42"); balance != "90" || mark != held.Token {
		t.Errorf("after the kill: balance %s, mark %d; want 90, %d", balance, mark, held.Token)
	}
	if r := c.get("objects/reports/a.txt"); string(r.body) != "a report" || r.mark() != report.Token {
		t.Errorf("after the kill: object %v, mark %d; want mark %d", r, r.mark(), report.Token)
	}
	if r := c.patch("wallets/42", held.Token, `{"balance":90}`); !r.ok() || !r.replayed() {
		t.Errorf("the same write again: %v, want a replay", r)
	}
	next := c.acquire("wallet:42", time.Hour)
	if next.Token <= report.Token {
		t.Errorf("token %d was granted after %d", next.Token, report.Token)
	}
	c.patch("wallets/42", held.Token+1, `{"balance":70}`).want(t, "stale-token")
	if after := second.env(); after["FENCEGATE_DATABASE_URL"] != before["FENCEGATE_DATABASE_URL"] {
		t.Errorf("the database's URL was %s and is %s", before["FENCEGATE_DATABASE_URL"], after["FENCEGATE_DATABASE_URL"])
	}
	if code := second.stop(); code != 0 {
		t.Errorf("stopped with SIGTERM: exit code %d", code)
	}
}

func TestEnvFileIsPrivateAndUsable(t *testing.T) {
	t.Parallel()
	p := startDev(t, filepath.Join(t.TempDir(), "a folder of mine"))
	info, err := os.Stat(filepath.Join(p.data, "env"))
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("mode %o, want 600", mode)
	}
	env := p.env()
	if env["FENCEGATE_URL"] != p.url {
		t.Errorf("FENCEGATE_URL=%s, but the gateway is at %s", env["FENCEGATE_URL"], p.url)
	}
	const query = "SELECT owner FROM wallets WHERE id = 42"
	if owner := queryText(t, env["FENCEGATE_DATABASE_URL"], query); owner != "alice" {
		t.Errorf("owner %q through pgx", owner)
	}
	if psql, err := exec.LookPath("psql"); err == nil {
		if out, err := exec.Command(psql, "-Atc", query, env["FENCEGATE_DATABASE_URL"]).CombinedOutput(); err != nil || string(out) != "alice\n" {
			t.Errorf("psql: %q, %v", out, err)
		}
	}
	options, err := redis.ParseURL(env["FENCEGATE_REDIS_URL"])
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	defer client.Close()
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("redis: %v", err)
	}
}

func TestSecondDevOnOneFolderIsRefused(t *testing.T) {
	t.Parallel()
	first := startDev(t, filepath.Join(t.TempDir(), "data"))
	before := first.env()
	_, stderr, code := runBinary(t, nil, "dev", "--listen=127.0.0.1:0", "--data="+first.data)
	want := "another fencegate (process " + strconv.Itoa(first.cmd.Process.Pid) + ") is running on "
	if code == 0 || !strings.Contains(stderr, want) {
		t.Errorf("exit code %d, standard error %q; want an error that says %q", code, stderr, want)
	}
	if after := first.env(); after["FENCEGATE_URL"] != before["FENCEGATE_URL"] {
		t.Errorf("FENCEGATE_URL was %s and is %s", before["FENCEGATE_URL"], after["FENCEGATE_URL"])
	}
	if balance, _ := first.client().balance("wallets/42"); balance != "100" {
		t.Errorf("the first has balance %s", balance)
	}
}

func TestDevListensOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "example.com:0"} {
		_, stderr, code := runBinary(t, nil, "dev", "--listen="+address, "--data="+filepath.Join(t.TempDir(), "data"))
		if code == 0 || !strings.Contains(stderr, "loopback") {
			t.Errorf("--listen=%s: exit code %d, standard error %q", address, code, stderr)
		}
	}
}

func TestAddressInUseIsAClearError(t *testing.T) {
	t.Parallel()
	p, s := startShared(t)
	address := strings.TrimPrefix(p.url, "http://")
	_, stderr, code := runBinary(t, nil, append([]string{"dev", "--listen=" + address, "--data=" + t.TempDir()}, s.flags()...)...)
	if code == 0 || !strings.Contains(stderr, address) || !strings.Contains(stderr, "--listen") {
		t.Errorf("exit code %d, standard error %q", code, stderr)
	}
}

// A page in somebody's browser reaches loopback: by a name of its own that resolves to 127.0.0.1, or across sites.
func TestPagesOfOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	p, _ := startShared(t)
	port := p.url[strings.LastIndexByte(p.url, ':'):]
	for _, test := range []struct {
		name, host    string
		header, value string
		want          int
	}{
		{name: "Loopback", host: "127.0.0.1" + port, want: http.StatusOK},
		{name: "Localhost", host: "localhost" + port, want: http.StatusOK},
		{name: "SameOrigin", host: "localhost" + port, header: "Origin", value: "http://localhost" + port, want: http.StatusOK},
		{name: "OtherHost", host: "rebound.example" + port, want: http.StatusForbidden},
		{name: "LoopbackAsPrefix", host: "127.0.0.1.rebound.example" + port, want: http.StatusForbidden},
		{name: "OtherOrigin", host: "127.0.0.1" + port, header: "Origin", value: "http://rebound.example", want: http.StatusForbidden},
		{name: "OpaqueOrigin", host: "127.0.0.1" + port, header: "Origin", value: "null", want: http.StatusForbidden},
		{name: "OtherPort", host: "127.0.0.1" + port, header: "Origin", value: "http://127.0.0.1:1", want: http.StatusForbidden},
		{name: "CrossSite", host: "127.0.0.1" + port, header: "Sec-Fetch-Site", value: "cross-site", want: http.StatusForbidden},
	} {
		t.Run(test.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/v1/rows/wallets/42", nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = test.host
			if test.header != "" {
				req.Header.Set(test.header, test.value)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != test.want {
				t.Errorf("status %d, want %d", resp.StatusCode, test.want)
			}
			// Nothing of the ledger is told to whom is refused.
			if told := resp.Header.Get("X-Fence-Lease"); (told != "") != (test.want == http.StatusOK) {
				t.Errorf("X-Fence-Lease %q", told)
			}
		})
	}
}

// Requests that are under way when the gateway is told to stop are answered.
func TestStopLetsRequestsFinish(t *testing.T) {
	t.Parallel()
	p, _ := startShared(t)
	c := p.client()
	g := c.acquire("report:a.txt", time.Hour)
	w := startUploader(t, p.url+"/v1/objects/reports/a.txt", g.Token)
	if got := w.line(); got != "half" {
		t.Fatalf("the uploader said %q", got)
	}
	stopped := make(chan int)
	go func() { stopped <- p.stop() }()
	// The listener is closed first: a new connection is refused then.
	within(t, patience, "the gateway has begun to stop", func() bool {
		_, err := newClient(t, p.url).try(context.WithoutCancel(t.Context()), http.MethodGet, "/livez", nil)
		return err != nil
	})
	w.wake()
	if got := w.line(); got != "201 " {
		t.Errorf("the upload: %q, want 201", got)
	}
	if code := <-stopped; code != 0 {
		t.Errorf("exit code %d", code)
	}
}
