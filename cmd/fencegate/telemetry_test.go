package main

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// What happens at the gateway is in the scrape, whole as the table in the docs has it, and nothing that was named is.
func TestMetricsOfServe(t *testing.T) {
	auth := filepath.Join(t.TempDir(), "auth.yaml")
	code, out, errs := command(t, "auth", "new", "alice", "--allow-lease=*", "--allow-table=public.wallets", "--allow-bucket=*", "--verb=lease,read,write")
	if code != 0 {
		t.Fatalf("%s%s", out, errs)
	}
	secret := regexp.MustCompile(`fg_[A-Za-z0-9_-]{20,}`).FindString(out)
	_, entry, found := strings.Cut(out, "  - name:")
	if !found || secret == "" {
		t.Fatalf("no entry in %s", out)
	}
	if err := os.WriteFile(auth, []byte("principals:\n  - name:"+entry), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServing(t, "--auth-file="+auth, "--gc-interval=100ms")
	as := "Authorization: Bearer " + secret
	token, id := s.acquire("wallet:42", as)
	s.want(200, "PATCH", "/v1/rows/wallets/42", `{"balance":777666}`, as, "X-Fence-Token: "+token.String())
	s.want(412, "PATCH", "/v1/rows/wallets/42", `{"balance":1}`, as, "X-Fence-Token: 5")
	s.want(200, "GET", "/v1/rows/wallets/42", "", as)
	s.want(200, "GET", "/v1/marks/rows/wallets/42", "", as)
	s.want(204, "DELETE", "/v1/leases/wallet:42", "", as, "X-Lease-Id: "+id)
	s.want(400, "GET", "/v1/events?after=nonsense", "", as)
	s.want(401, "GET", "/v1/rows/wallets/42", "", "Authorization: Bearer wrong")
	objectToken, _ := s.acquire("report:private.csv", as)
	s.want(201, "PUT", "/v1/objects/"+s.bucket+"/private.csv", "a body", as, "X-Fence-Token: "+objectToken.String())

	var body string
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		var answer *http.Response
		if answer, body = request(t, "GET", s.admin+"/metrics", ""); answer.StatusCode != http.StatusOK {
			t.Fatal(answer.Status)
		}
		if !strings.Contains(body, "fencegate_collector_last_success_timestamp_seconds 0\n") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the collector has not been seen: %s", s.log)
		}
	}
	for _, sample := range []string{
		`fencegate_writes_total{outcome="accepted",store="rows",verb="patch"} 1`,
		`fencegate_writes_total{outcome="stale-token",store="rows",verb="patch"} 1`,
		`fencegate_writes_total{outcome="accepted",store="objects",verb="put"} 1`,
		`fencegate_reads_total{outcome="accepted",store="rows"} 1`,
		`fencegate_marks_total{outcome="accepted"} 1`,
		`fencegate_leases_total{call="acquire",outcome="accepted"} 2`,
		`fencegate_leases_total{call="release",outcome="accepted"} 1`,
		`fencegate_requests_rejected_total{api="rows",outcome="unauthenticated"} 1`,
		`fencegate_logins_failed_total{reason="credentials"} 1`,
		`fencegate_requests_in_flight{api="rows"} 0`,
		`fencegate_ledger_up 1`,
		`fencegate_database_connections_max 16`,
		`fencegate_upload_memory_bytes 0`,
		`fencegate_acquires_waiting 0`,
	} {
		if !strings.Contains(body, "\n"+sample+"\n") {
			t.Errorf("%s is not in the scrape", sample)
		}
	}
	text, err := os.ReadFile(operations)
	if err != nil {
		t.Fatal(err)
	}
	table, _, _ := strings.Cut(string(text), "<!-- end of metrics -->")
	documented := regexp.MustCompile("(?m)^\\| `(fencegate_[a-z_]+)`").FindAllStringSubmatch(table, -1)
	// Without TLS no certificate runs out.
	documented = slices.DeleteFunc(documented, func(name []string) bool { return name[1] == "fencegate_certificate_expiry_seconds" })
	for _, name := range documented {
		if !strings.Contains(body, "# TYPE "+name[1]+" ") {
			t.Errorf("%s is in the docs, not in the scrape", name[1])
		}
	}
	if exist := strings.Count(body, "# TYPE fencegate_"); exist != len(documented) {
		t.Errorf("%d metrics, %d in the docs", exist, len(documented))
	}
	for _, private := range []string{secret, id, "alice", "wallet:", "wallets", s.bucket, "private", token.String() + `"`, "777666"} {
		if strings.Contains(body, private) {
			t.Errorf("%s is in the metrics", private)
		}
	}
}
