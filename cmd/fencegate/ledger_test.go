package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/internal/testenv"
	"github.com/fencegate/fencegate/stores/pgstore"
)

func TestLedgerAdvance(t *testing.T) {
	url := testenv.Database(t)
	if _, err := pgstore.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	store, err := pgstore.Open(pgstore.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var floor fence.Token
	grant := func() *fence.Grant {
		t.Helper()
		g, err := store.Certify(t.Context(), fence.Certificate{Lease: "l", Principal: "p", Holder: "h", Acquire: fence.AcquireDigest("p", floor.String()), TTL: time.Minute, Floor: floor})
		if err != nil {
			t.Fatal(err)
		}
		floor = g.First()
		return g
	}
	grant()
	withPassword := strings.Replace(url, "postgres@", "postgres:hunter2@", 1)
	pipe, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	if _, err := w.WriteString("advance\n"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	for _, c := range []struct {
		name string
		args []string
		in   any
		code int
		says string
		live int64
	}{
		{"NobodyToAsk", nil, "", 1, "nothing was changed", 1},
		{"AnotherWord", nil, "yes\n", 1, "nothing was changed", 1},
		{"NoTerminal", nil, pipe, 1, "give --yes", 1},
		{"NoBlocks", []string{"--blocks=0", "--yes"}, "", 1, "must be positive", 1},
		{"TooManyBlocks", []string{"--blocks=999999999999", "--yes"}, "", 1, "fencegate: the ledger has 999999999998 blocks of tokens left, fewer than it would be advanced by\n", 1},
		{"TheWord", nil, "advance\n", 0, "1 grants ended; tokens begin at 1000000002000", 0},
		{"Unasked", []string{"--yes", "--blocks=5"}, "", 0, "0 grants ended; tokens begin at 1000000007000", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			std := streams{nil, &stdout, &stderr}
			switch in := c.in.(type) {
			case string:
				std.in = strings.NewReader(in)
			case *os.File:
				std.in = in
			}
			code := run(context.Background(), append([]string{"ledger", "advance", "--database-url=" + withPassword}, c.args...), std)
			out := stdout.String() + stderr.String()
			if code != c.code || !strings.Contains(out, c.says) || strings.Contains(out, "hunter2") {
				t.Errorf("exit %d, want %d, and %q in:\n%s", code, c.code, c.says, out)
			}
			if n, all, err := store.LiveGrants(t.Context()); err != nil || n != c.live || !all {
				t.Errorf("%d live grants, want %d: %v", n, c.live, err)
			}
		})
	}
	if g := grant(); g.First() != 1000000007000 {
		t.Errorf("the next grant begins at %d", g.First())
	}
}
