package main

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/internal/testenv"
)

// A subject of an issuer takes a lease and writes; row security and the columns of its rules are in force.
func TestServeSubjectsOfIssuers(t *testing.T) {
	database, role := testenv.Database(t), "app_"+strings.ToLower(rand.Text())
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		defer conn.Close(ctx)
		if _, err := conn.Exec(ctx, "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	if _, err := conn.Exec(t.Context(), `CREATE TABLE wallets (id bigint PRIMARY KEY, owner text, balance numeric, secret text);
		INSERT INTO wallets VALUES (1, 'alice', 10, 'x'), (2, 'bob', 20, 'x');
		CREATE ROLE `+role+`; GRANT SELECT, INSERT, UPDATE, DELETE ON wallets TO `+role+`;
		ALTER TABLE wallets ENABLE ROW LEVEL SECURITY;
		CREATE POLICY own ON wallets TO `+role+` USING (owner = nullif(current_setting('request.jwt.claims', true), '')::json ->> 'sub')`); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"migrate", "up"}, {"protect", "wallets", "--lease=wallet:{id}"}} {
		if code, out, errs := command(t, append(args, "--database-url="+database)...); code != 0 {
			t.Fatalf("%v: %s%s", args, out, errs)
		}
	}
	i := newIssuer(t)
	file := filepath.Join(t.TempDir(), "auth.yaml")
	writeFile(t, file, strings.Replace(i.entry(), "app_user\n    allow: [{tables: [wallets], verbs: [read], columns: [owner, Balance]}]",
		role+"\n    allow: [{leases: ['wallet:*'], verbs: [lease]}, {tables: [wallets], verbs: [read, write], columns: [balance]}]", 1))
	s := startServing(t, "--database-url="+database, "--auth-file="+file)
	alice, bob := "Authorization: Bearer "+i.token(t, "alice"), "Authorization: Bearer "+i.token(t, "bob")
	token, _ := s.acquire("wallet:1", alice)
	s.want(401, "GET", "/v1/rows/wallets/1", "")
	s.want(401, "GET", "/v1/rows/wallets/1", "", alice+"x")
	if row := s.want(200, "GET", "/v1/rows/wallets/1", "", alice); !strings.Contains(row, `"balance":10`) || strings.Contains(row, "secret") {
		t.Errorf("the row is %s", row)
	}
	s.want(404, "GET", "/v1/rows/wallets/2", "", alice)
	s.want(200, "PATCH", "/v1/rows/wallets/1", `{"balance":11}`, alice, "X-Fence-Token: "+token.String())
	if body := s.want(403, "PATCH", "/v1/rows/wallets/1", `{"owner":"bob"}`, alice, "X-Fence-Token: "+token.String()); !strings.Contains(body, "owner") {
		t.Errorf("the answer is %s", body)
	}
	s.want(404, "GET", "/v1/rows/wallets/1", "", bob)
	if grant := s.want(200, "GET", "/v1/leases/wallet:1", "", bob); !strings.Contains(grant, i.URL+"#alice") {
		t.Errorf("the grant is %s", grant)
	}
}
