package pgstore_test

import (
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores/pgstore"
)

// What code of a table's owner leaves in a session admits nothing: the mark decides (I3, I5).
func TestSettingsDoNotAdmit(t *testing.T) {
	w := newWorld(t)
	s := w.another(pgstore.Config{MaxConns: 1}) // one session for all
	w.exec(`CREATE TABLE b (id int PRIMARY KEY, a text); INSERT INTO b VALUES (1, 'x'); SELECT fence.protect('b', 'wallet:42');
		CREATE FUNCTION forge() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('fence.admitted', '1005 rows/public.wallets/42', false); RETURN NEW; END $$;
		CREATE TRIGGER forge AFTER UPDATE ON b FOR EACH ROW EXECUTE FUNCTION forge()`)
	token := w.grant("wallet:42", "worker-a", "1").First()
	if _, err := s.WriteRow(t.Context(), rowOf(fence.OpPatch, "b", "1", token, `{"a":"1"}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Row(t.Context(), fence.RowRead{Row: fence.RowName{Table: "wallets", Key: []string{"42"}}}); err != nil {
		t.Fatal(err)
	}
	w.exec("SELECT fence.unprotect('wallets')") // its description is known still
	_, err := s.WriteRow(t.Context(), rowOf(fence.OpPatch, "wallets", "42", 1005, `{"balance":1}`))
	wantCode(t, err, fence.CodeNotFound)
	w.exec("SELECT fence.protect('wallets', 'other')")
	write := rowOf(fence.OpPatch, "wallets", "42", 1005, `{"balance":2}`)
	_, err = s.Commit(t.Context(), fence.Commit{Principal: "mallory", Writes: []fence.CommitWrite{{Row: &write}}})
	wantCode(t, err, fence.CodeUnissuedToken)
	if got := w.text("SELECT balance::text FROM wallets WHERE id = 42") + " " + w.mark("rows/public.wallets/42"); got != "100 0" {
		t.Errorf("balance and mark are %s", got)
	}
}

// Nor does what such code takes away undo what was admitted: all of a commit is done.
func TestTriggersThatResetTheSession(t *testing.T) {
	w, from, to := newTransfer(t)
	w.exec(`CREATE FUNCTION reset() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RESET ALL; RETURN NEW; END $$;
		CREATE TRIGGER reset AFTER UPDATE ON wallets FOR EACH ROW EXECUTE FUNCTION reset()`)
	if _, err := w.commit(patchRow("wallets", "42", from, `{"balance":1}`), patchRow("wallets", "43", to, `{"balance":2}`)); err != nil {
		t.Fatal(err)
	}
	if got := w.text("SELECT string_agg(id || '=' || balance, ' ' ORDER BY id) FROM wallets"); got != "42=1 43=2" {
		t.Errorf("the wallets are %s", got)
	}
	w.exec(`CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RESET ALL; RETURN NULL; END $$;
		CREATE TRIGGER a BEFORE UPDATE ON wallets FOR EACH ROW EXECUTE FUNCTION swallow()`)
	_, err := w.WriteRow(t.Context(), rowOf(fence.OpPatch, "wallets", "42", from+1, `{"balance":3}`))
	wantCode(t, err, fence.CodeWriteSuppressed)
	if w.mark("rows/public.wallets/42") != from.String() {
		t.Error("the mark was raised")
	}
}

// A cast that the owner of an enum makes does not run with the rights of the ledger's owner, nor of a gateway that names a row.
func TestCastsOfAnEnumsOwner(t *testing.T) {
	w := newWorld(t)
	role := testRole(t, w)
	w.exec(`GRANT CREATE ON SCHEMA public TO ` + role + `; SET ROLE ` + role + `; CREATE TYPE mood AS ENUM ('ok', 'b"a,d'); CREATE TABLE m (id mood PRIMARY KEY, a text); RESET ROLE;
		SELECT fence.protect('m', 'm:{id}'), fence.guard('m'); SET ROLE ` + role + `;
		CREATE FUNCTION evil(mood) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'evil as %', current_user; END $$;
		CREATE CAST (mood AS text) WITH FUNCTION evil(mood) AS ASSIGNMENT`)
	_, err := w.db.Exec(t.Context(), "BEGIN; SELECT pg_current_xact_id(); INSERT INTO m VALUES ('ok', 'x')")
	if err == nil || strings.Contains(err.Error(), "evil") || !strings.Contains(err.Error(), "FG016") {
		t.Errorf("an insert that was not admitted: %v", err)
	}
	w.exec("ROLLBACK; RESET ROLE")
	token := w.grant(`m:b"a,d`, "worker-a", "1").First()
	put := fence.RowWrite{Op: fence.OpPut, Row: fence.RowName{Table: "m", Key: []string{`b"a,d`}}, Access: fence.Access{Principal: "worker-a", Token: token}, Body: []byte("{}")}
	row, err := w.WriteRow(t.Context(), put)
	if err != nil || row.Resource != "rows/public.m/b%22a%2Cd" {
		t.Errorf("%+v, %v", row, err)
	}
	w.exec("DROP TABLE m; DROP TYPE mood CASCADE")
}

// What was carried out is told so, whatever became of the table and the writer's rights since (I7).
func TestReplayedWhateverCameAfter(t *testing.T) {
	w := newWorld(t)
	role := testRole(t, w)
	w.exec(`CREATE TABLE n (id int PRIMARY KEY, a text); INSERT INTO n VALUES (1, 'x'), (2, 'y'), (3, 'z'); CREATE TABLE g (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a text);
		SELECT fence.protect('n', 'n'), fence.protect('g', 'n'); GRANT SELECT, UPDATE, DELETE ON n TO ` + role)
	token, as := w.grant("n", "worker-a", "1").First(), fence.Identity{Role: role}
	remove, change, insert := rowOf(fence.OpDelete, "n", "1", token, ""), rowOf(fence.OpPatch, "n", "2", token, `{"a":"z"}`), insertInto("g", `{"a":"z"}`, token)
	remove.As, change.As, insert.Principal = as, as, "worker-a"
	both := fence.Commit{Principal: "worker-a", As: as, Writes: []fence.CommitWrite{{Row: &remove}, patchRow("n", "3", token, `{"a":"z"}`)}}
	again := func(replayed bool) {
		t.Helper()
		done, err := w.Commit(t.Context(), both)
		if err != nil || done.Replayed != replayed {
			t.Errorf("commit: %+v, %v", done, err)
		}
		for _, write := range []fence.RowWrite{change, insert} {
			row, err := w.WriteRow(t.Context(), write)
			if err != nil || row.Replayed != replayed || row.Mark != token {
				t.Errorf("%s: %+v, %v", write.Op, row, err)
			}
		}
	}
	again(false)
	again(true)
	w.exec("REVOKE SELECT ON n FROM " + role)
	again(true)
	w.exec("ALTER TABLE n RENAME a TO b; SELECT fence.protect('g', 'g:{id}')")
	again(true)
	_, err := w.WriteRow(t.Context(), rowOf(fence.OpPatch, "n", "2", token+1, `{"a":"z"}`))
	wantCode(t, err, fence.CodeInvalidRequest)
}

// Creating a table that has nothing to do with a guarded one does not lock it, whatever its guard lacks.
func TestOtherTablesAreNoBusinessOfGuards(t *testing.T) {
	w := newWorld(t)
	w.exec("SELECT fence.guard('wallets'); DROP TRIGGER fence_guard_truncate ON wallets")
	other := w.connect()
	if _, err := other.Exec(t.Context(), "BEGIN; CREATE TEMP TABLE unrelated (a int)"); err != nil {
		t.Fatal(err)
	}
	if got := w.text("SELECT count(*)::text FROM pg_locks WHERE relation = 'wallets'::regclass"); got != "0" {
		t.Errorf("%s locks on the guarded table", got)
	}
}

// What a trigger leaves of a role is not there for the next request.
func TestRoleLeftInASession(t *testing.T) {
	w := newWorld(t)
	role := testRole(t, w)
	s := w.another(pgstore.Config{MaxConns: 1})
	w.exec(`CREATE TABLE b (id int PRIMARY KEY, a text); INSERT INTO b VALUES (1, 'x'); SELECT fence.protect('b', 'b');
		CREATE FUNCTION become() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('role', '` + role + `', false); RETURN NEW; END $$;
		CREATE TRIGGER become AFTER UPDATE ON b FOR EACH ROW EXECUTE FUNCTION become()`)
	token := w.grant("b", "worker-a", "1").First()
	if _, err := s.WriteRow(t.Context(), rowOf(fence.OpPatch, "b", "1", token, `{"a":"1"}`)); err != nil {
		t.Fatal(err)
	}
	read := fence.RowRead{Row: fence.RowName{Table: "wallets", Key: []string{"42"}}}
	_, _ = s.Row(t.Context(), read) // may be refused
	if _, err := s.Row(t.Context(), read); err != nil {
		t.Errorf("the next request but one: %v", err)
	}
}

// Code of the table's owner that fails is told as such: it is neither the client's mistake nor the gateway's.
func TestTriggersThatFail(t *testing.T) {
	w := newWorld(t)
	token := w.grant("wallet:42", "worker-a", "1").First()
	for name, code := range map[string]string{
		"missing function": "PERFORM nowhere()", "strict": "SELECT 1 INTO STRICT n WHERE false", "assert": "ASSERT false", "own state": "RAISE EXCEPTION 'no' USING ERRCODE = 'MY001'",
		"two rows": "n := (SELECT * FROM generate_series(1, 2))",
	} {
		w.exec(`CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ DECLARE n int; BEGIN ` + code + `; RETURN NEW; END $$;
			CREATE OR REPLACE TRIGGER fail BEFORE UPDATE ON wallets FOR EACH ROW EXECUTE FUNCTION fail()`)
		_, err := w.WriteRow(t.Context(), rowOf(fence.OpPatch, "wallets", "42", token, `{"balance":1}`))
		if fence.CodeOf(err) != fence.CodeConstraintViolation {
			t.Errorf("%s: %v", name, err)
		}
	}
	if w.mark("rows/public.wallets/42") != "0" {
		t.Error("the mark was raised")
	}
}

// A key in a body is read like any other value.
func TestInsertedKeysAreChecked(t *testing.T) {
	w := newWorld(t)
	w.exec("CREATE TABLE b (id bytea PRIMARY KEY); CREATE TABLE ts (id timestamp PRIMARY KEY); SELECT fence.protect('b', 'l'), fence.protect('ts', 'l')")
	token := w.grant("l", "p", "1").First()
	row, err := w.WriteRow(t.Context(), insertInto("b", `{"id":{"$base64":"AP8="}}`, token))
	if err != nil || string(row.JSON) != `{"id":"\\x00ff"}` {
		t.Errorf("%s, %v", row.JSON, err)
	}
	for _, write := range []fence.RowWrite{
		insertInto("b", `{"id":"AP8="}`, token+1), insertInto("ts", `{"id":"2026-01-02T03:04:05+05:00"}`, token+1), rowWrite(fence.OpPut, "ts", "2026-01-02T03:04:05Z", `{}`, token+1),
	} {
		_, err := w.WriteRow(t.Context(), write)
		if e := wantCode(t, err, fence.CodeInvalidRequest); e.Field != "id" {
			t.Errorf("%+v", e)
		}
	}
}
