package pgstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fence"
)

// Functions of another role in public are not called, as the gateway's role, by the statements of a batch.
func TestBatchHostileFunctions(t *testing.T) {
	w, first := many(t, "")
	role := testRole(t, w)
	w.exec(`CREATE TABLE public.told (who text, what text); GRANT INSERT ON told TO PUBLIC; GRANT CREATE ON SCHEMA public TO ` + role + `; SET ROLE ` + role + `;
		CREATE FUNCTION public.spy(n bigint, i integer) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.told VALUES (current_user, 'count'); RETURN n + 1; END $$;
		CREATE AGGREGATE public.count(integer) (SFUNC = public.spy, STYPE = bigint, INITCOND = '0');
		CREATE FUNCTION public.array_to_string(integer[], text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'evil as %', current_user; RETURN '1,2,3'; END $$; RESET ROLE`)
	defer w.exec("DROP AGGREGATE public.count(integer); DROP FUNCTION public.spy, public.array_to_string(integer[], text); REVOKE ALL ON SCHEMA public FROM " + role)
	land, came := w.beginWrites(patch("many", "1", `{"n":1}`, first), patch("many", "2", `{"n":2}`, first+1), patch("many", "3", `{"n":3}`, first+2))
	land()
	for i := range came {
		if a := <-came[i]; a.Code != "accepted" {
			t.Errorf("%+v", a)
		}
	}
	if got := w.text("SELECT string_agg(DISTINCT who || ' ' || what, ', ') FROM told"); got != "<null>" {
		t.Errorf("code of %s ran as: %s", role, got)
	}
	land, came = w.beginWrites(patch("many", "4", `{"n":1}`, first), patch("many", "5", `{"n":2}`, first+1), patch("many", "6", `{"n":2}`, first+1), patch("many", "99", `{"n":3}`, first+2))
	land()
	for i := range came {
		<-came[i]
	}
	if got := w.Stats().Batches.FellBack; got != 1 {
		t.Errorf("%d writes fell back: the error's detail was made by the other role's array_to_string", got)
	}
}

// The mark of a ledger that was restored can bear the number of the batch's transaction. It was not raised by it.
func TestBatchBesideARestoredMark(t *testing.T) {
	w, first := many(t, "SELECT fence.protect('wallets', 'w'); INSERT INTO wallets SELECT i, 'x', 1 FROM generate_series(100, 160) i")
	if _, err := w.WriteRow(t.Context(), patch("many", "1", `{"n":1}`, first)); err != nil {
		t.Fatal(err)
	}
	w.exec("UPDATE fence.grants SET ended_at = now(), ended_why = 'ledger advanced' WHERE lease = 'many'")
	wallet := w.grant("w", "p", "a").First()
	for i := range 20 {
		land, came := w.beginWrites(patch("many", "1", fmt.Sprintf(`{"n":%d}`, 100+i), first), patch("wallets", fmt.Sprint(100+i), `{"balance":5}`, wallet+fence.Token(i)))
		w.exec("UPDATE fence.marks SET xid = ((pg_current_xact_id()::text)::bigint + 1)::text::xid8, written_at = written_at - interval '1 day' WHERE resource = 'rows/public.many/1'")
		land()
		a, b := <-came[0], <-came[1]
		if a.Code != "grant-ended" && a.Code != "spent-token" || b.Code != "accepted" {
			t.Fatalf("%+v %+v", a, b)
		}
		if n := w.text("SELECT n::text FROM many WHERE id = 1"); n != "1" {
			t.Fatalf("try %d: the write of a grant that has ended was answered %s, and the row is %s", i, a.Code, n)
		}
	}
}

// Rows that a trigger stores under each other's keys are refused, as each is alone.
func TestBatchSwappedKeys(t *testing.T) {
	const sql = `CREATE TABLE swapped (id int PRIMARY KEY, a text); SELECT fence.protect('swapped', 'swapped');
		CREATE FUNCTION swap() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.id := 3 - NEW.id; RETURN NEW; END $$;
		CREATE TRIGGER swap BEFORE INSERT ON swapped FOR EACH ROW EXECUTE FUNCTION swap()`
	w, _ := many(t, sql)
	first := w.grant("swapped", "p", "1").First()
	land, came := w.beginWrites(rowWrite(fence.OpPut, "swapped", "1", `{"a":"one"}`, first), rowWrite(fence.OpPut, "swapped", "2", `{"a":"two"}`, first+1))
	land()
	for i := range came {
		if a := <-came[i]; a.Code == "accepted" {
			t.Errorf("write %d was accepted: %s", i+1, a.JSON)
		}
	}
}

// What a function of one table's constraint sets is not there for the write of another table.
func TestBatchSettingsOfACheck(t *testing.T) {
	w, first := many(t, `CREATE FUNCTION leaky(n int) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('app.tenant', 'of many', true), set_config('synchronous_commit', 'off', true); RETURN true; END $$;
		ALTER TABLE many ADD CHECK (leaky(n));
		CREATE TABLE other (id int PRIMARY KEY, tenant text DEFAULT current_setting('app.tenant', true), sync text DEFAULT current_setting('synchronous_commit'), a text); SELECT fence.protect('other', 'other')`)
	other := w.grant("other", "p", "1").First()
	land, came := w.beginWrites(patch("many", "1", `{"n":1}`, first), rowWrite(fence.OpPut, "other", "1", `{"a":"x"}`, other))
	land()
	<-came[0]
	<-came[1]
	if _, err := w.WriteRow(t.Context(), rowWrite(fence.OpPut, "other", "2", `{"a":"x"}`, other+1)); err != nil {
		t.Fatal(err)
	}
	if got := w.text("SELECT string_agg(concat_ws(' ', tenant, sync), '; ' ORDER BY id) FROM other"); strings.Contains(got, "of many") || strings.Contains(got, "off") {
		t.Errorf("together; alone: %s", got)
	}
}

// A body of a library's that is no object is refused.
func TestBatchBodyIsNull(t *testing.T) {
	w, first := many(t, "")
	x := patch("many", "1", "null", first)
	x.Columns = []string{"n"}
	_, err := w.WriteRow(t.Context(), x)
	wantCode(t, err, fence.CodeInvalidRequest)
}

// What one row's trigger raises is told to nobody else, whatever it claims to be.
func TestBatchErrorOfAnother(t *testing.T) {
	w, first := many(t, `CREATE FUNCTION quota() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.n = 13 THEN RAISE 'over the quota' USING ERRCODE = 'configuration_limit_exceeded'; END IF; RETURN NEW; END $$;
		CREATE TRIGGER quota BEFORE UPDATE ON many FOR EACH ROW EXECUTE FUNCTION quota()`)
	land, came := w.beginWrites(patch("many", "1", `{"n":1}`, first), patch("many", "2", `{"n":13}`, first+1), patch("many", "3", `{"n":3}`, first+2))
	land()
	for i := range came {
		if a := <-came[i]; i != 1 && a.Code != "accepted" {
			t.Errorf("write %d: %s %s", i+1, a.Code, a.Message)
		}
	}
}

// A role that lacks a right lacks it for all of a batch, which is not searched for somebody who has it.
func TestBatchForbiddenAll(t *testing.T) {
	w, first := many(t, "")
	role := testRole(t, w)
	w.exec("GRANT SELECT ON many TO " + role)
	var writes []fence.RowWrite
	for i := range 16 {
		x := patch("many", fmt.Sprint(i+1), `{"n":1}`, first+fence.Token(i))
		x.As = fence.Identity{Role: role}
		writes = append(writes, x)
	}
	land, came := w.beginWrites(writes...)
	land()
	for i := range came {
		if a := <-came[i]; a.Code != string(fence.CodeForbidden) {
			t.Errorf("%+v", a)
		}
	}
	if got := w.Stats().Batches; got.Failed > 1 || got.FellBack != 16 {
		t.Errorf("%+v", got)
	}
}

// What a trigger leaves of the role, or of the claims, is nobody else's.
func TestBatchAfterAChangeOfRole(t *testing.T) {
	w, ann, token := newTenants(t)
	w.exec(`INSERT INTO notes VALUES (10, 'ann', true, ''), (11, 'bob', true, '');
		CREATE FUNCTION careless() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RESET ROLE; RETURN NULL; END $$;
		CREATE TRIGGER careless AFTER UPDATE ON notes FOR EACH ROW EXECUTE FUNCTION careless()`)
	own, others := patch("notes", "10", `{"text":"mine"}`, token), patch("notes", "11", `{"text":"stolen"}`, token+1)
	own.As, others.As, others.NumbersAsText = ann, ann, true
	_, err := w.WriteRow(t.Context(), others)
	wantCode(t, err, fence.CodeNotFound)
	land, came := w.beginWrites(own, others)
	land()
	<-came[0]
	<-came[1]
	if got := w.text("SELECT text FROM notes WHERE id = 11"); got != "" {
		t.Errorf("ann wrote %q into the row of bob", got)
	}
}

func TestBatchAfterAChangeOfClaims(t *testing.T) {
	w, ann, token := newTenants(t)
	w.exec(`INSERT INTO notes VALUES (10, 'ann', true, ''), (11, 'bob', true, ''); ALTER POLICY change ON notes WITH CHECK (true);
		CREATE FUNCTION careless() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('request.jwt.claims', '{"sub":"bob"}', true); RETURN NEW; END $$;
		CREATE TRIGGER careless BEFORE UPDATE ON notes FOR EACH ROW EXECUTE FUNCTION careless()`)
	own, others := patch("notes", "10", `{"text":"mine"}`, token), patch("notes", "11", `{"text":"stolen"}`, token+1)
	own.As, others.As = ann, ann
	_, err := w.WriteRow(t.Context(), others)
	wantCode(t, err, fence.CodeNotFound)
	land, came := w.beginWrites(own, others)
	land()
	<-came[0]
	<-came[1]
	if got := w.text("SELECT text FROM notes WHERE id = 11"); got != "" {
		t.Errorf("ann wrote %q into the row of bob", got)
	}
}

// Nor is it that of the next write of a commit.
func TestCommitAfterAChangeOfRole(t *testing.T) {
	w, ann, token := newTenants(t)
	w.exec(`INSERT INTO notes VALUES (10, 'ann', true, ''), (11, 'bob', true, '');
		CREATE FUNCTION careless() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RESET ROLE; RETURN NULL; END $$;
		CREATE TRIGGER careless AFTER UPDATE ON notes FOR EACH ROW EXECUTE FUNCTION careless()`)
	own, others := patch("notes", "10", `{"text":"mine"}`, token), patch("notes", "11", `{"text":"stolen"}`, token)
	own.As, others.As = ann, ann
	_, err := w.Commit(t.Context(), fence.Commit{Writes: []fence.CommitWrite{{Row: &own}, {Row: &others}}, Principal: "p", As: ann})
	wantCode(t, err, fence.CodeNotFound)
	if got := w.text("SELECT string_agg(text, '') FROM notes WHERE id >= 10"); got != "" {
		t.Errorf("%q was written", got)
	}
}
