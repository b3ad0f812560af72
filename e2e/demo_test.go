package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestDemoShowsTheLossAndTheRefusal(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	stdout, stderr, code := runBinary(t, []string{"TMPDIR=" + folder}, "demo", "--ttl=300ms")
	if code != 0 {
		t.Fatalf("exit code %d: %s\n%s", code, stderr, stdout)
	}
	for what, want := range map[string]int{"LOST": 2, "REFUSED, stale-token": 4} {
		if got := strings.Count(stdout, what); got != want {
			t.Errorf("%d times %q, want %d", got, what, want)
		}
	}
	if left, err := filepath.Glob(filepath.Join(folder, "*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
	if t.Failed() {
		t.Log(stdout)
	}
}

// The demo leaves somebody's deployment as it was, but for marks.
func TestDemoAgainstARunningGateway(t *testing.T) {
	t.Parallel()
	p, s := startShared(t)
	c := p.client()
	g := c.acquire("wallet:42", pausedTTL)
	c.patch("wallets/42", g.Token, `{"balance":12.50}`).want(t, "")

	stdout, stderr, code := runBinary(t, nil, "demo", "--ttl=300ms", "--url="+p.url)
	if code == 0 || !strings.Contains(stderr, "12.50") {
		t.Errorf("a balance of 12.50: exit code %d, standard error %q, want one that names it\n%s", code, stderr, stdout)
	}
	if balance, mark := c.balance("wallets/42"); balance != "12.50" || mark != g.Token {
		t.Errorf("balance %s, mark %d; want 12.50, %d", balance, mark, g.Token)
	}
	g = c.acquire("wallet:42", pausedTTL)
	c.patch("wallets/42", g.Token, `{"balance":250}`).want(t, "")
	stdout, stderr, code = runBinary(t, nil, "demo", "--ttl=300ms", "--url="+p.url)
	if code != 0 {
		t.Fatalf("exit code %d: %s\n%s", code, stderr, stdout)
	}
	if got := strings.Count(stdout, "REFUSED, stale-token"); got != 4 || strings.Contains(stdout, "LOST") {
		t.Errorf("REFUSED %d times, want 4, and nothing lost:\n%s", got, stdout)
	}
	if balance, mark := c.balance("wallets/42"); balance != "250" || mark <= g.Token {
		t.Errorf("balance %s, mark %d; want 250 and a mark above %d", balance, mark, g.Token)
	}
	if n := queryText(t, s.database, "SELECT count(*)::text FROM fence.objects WHERE NOT deleted"); n != "0" {
		t.Errorf("the demo left %s objects", n)
	}
}

func TestDemoThatCannotWorkSaysWhy(t *testing.T) {
	t.Parallel()
	p, _ := startShared(t)
	for _, test := range []struct{ name, url, row, want string }{
		{"NoSuchRow", p.url, "wallets/999", "not-found"},
		{"UnprotectedTable", p.url, "orders/1", "not-found"},
		{"NobodyListens", "http://127.0.0.1:1", "wallets/42", "does not answer"},
		{"NotAGateway", p.url + "/elsewhere", "wallets/42", "404"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, stderr, code := runBinary(t, nil, "demo", "--ttl=300ms", "--url="+test.url, "--row="+test.row)
			if code == 0 || !strings.Contains(stderr, test.want) {
				t.Errorf("exit code %d, standard error %q, want %q", code, stderr, test.want)
			}
		})
	}
	if balance, mark := p.client().balance("wallets/42"); balance != "100" || mark != 0 {
		t.Errorf("balance %s, mark %d", balance, mark)
	}
}
