package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/localservers"
	"github.com/fencegate/fencegate/stores/pgstore"
)

// worksWith does with a database role, which the doctor found fit, what a gateway does: in table few, under lease l.
func worksWith(t *testing.T, url string) {
	t.Helper()
	store, err := pgstore.Open(pgstore.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	cert := fence.Certificate{Lease: "l", Principal: "p", Holder: "h", Acquire: fence.AcquireDigest("p", "a"), TTL: time.Minute}
	g, err := store.Certify(t.Context(), cert)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Certify(t.Context(), cert); err != nil {
		t.Errorf("the repetition: %v", err)
	}
	id, err := store.BeginBlob(t.Context(), "b", "p")
	if err != nil {
		t.Error(err)
	}
	if err := store.AbortBlob(t.Context(), id); err != nil {
		t.Error(err)
	}
	for deletions := range 2 {
		if err := store.Collected(t.Context(), fence.Garbage{ID: id, Bucket: "b", Deletions: deletions}); err != nil {
			t.Error(err)
		}
	}
	for range 2 { // the second is a replay
		_, err = store.WriteRow(t.Context(), fence.RowWrite{
			Row: fence.RowName{Table: "few", Key: []string{"1"}}, Op: fence.OpPut, Body: []byte("{}"), Access: fence.Access{Principal: "p", Token: g.First()},
		})
		if err != nil {
			t.Error(err)
		}
	}
	if _, err := store.More(t.Context(), "l", fence.GrantRef{ID: g.ID, Principal: "p"}); err != nil {
		t.Error(err)
	}
	if _, err := store.End(t.Context(), "l", fence.GrantRef{ID: g.ID, Principal: "p"}, fence.Ending{Why: fence.EndReleased}); err != nil {
		t.Error(err)
	}
}

func TestDoctorOfAMissingSynchronousStandby(t *testing.T) {
	server, err := localservers.StartPostgres(t.Context(), localservers.PostgresConfig{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	url, exec := patientAt(t, server.URL(""))
	exec("ALTER SYSTEM SET synchronous_standby_names = 'gone'")
	exec("SELECT pg_reload_conf()")
	for deadline := time.Now().Add(10 * time.Second); execute(t, url, "SHOW synchronous_standby_names") != "gone"; {
		if time.Now().After(deadline) {
			t.Fatal("the setting does not take")
		}
	}
	_, lines := diagnose(t, "--database-url="+url)
	wantLine(t, lines, "warn synchronous_commit", "no synchronous standby of gone is connected")
}

func TestEvictionPolicy(t *testing.T) {
	for policy, want := range map[string]string{"": "warn", "noeviction": "ok", "allkeys-lru": "warn"} {
		t.Run(fmt.Sprintf("Policy%q", policy), func(t *testing.T) {
			var out strings.Builder
			info := map[string]string{"redis_version": "7.0.0"}
			if policy != "" {
				info["maxmemory_policy"] = policy
			}
			tellEviction(&report{out: &out}, "eviction", info)
			if !strings.HasPrefix(out.String(), want+" ") {
				t.Errorf("%q, want %s", out.String(), want)
			}
		})
	}
}
