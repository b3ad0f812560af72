package pgstore_test

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
)

// testRole makes a role without any rights. Roles belong to the whole server.
func testRole(t *testing.T, w *world) string {
	t.Helper()
	role := "fencegate_test_" + strings.ToLower(rand.Text())
	w.exec("CREATE ROLE " + role)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := w.db.Exec(ctx, "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	return role
}

// newTenants has a table whose rows ann and bob own, of which each sees all that are public or his own, and changes his own.
func newTenants(t *testing.T) (w *world, ann fence.Identity, token fence.Token) {
	w = newWorld(t)
	role := testRole(t, w)
	w.exec(`CREATE TABLE notes (id int PRIMARY KEY, owner text NOT NULL, public boolean NOT NULL DEFAULT false, text text);
		INSERT INTO notes VALUES (1, 'ann', false, 'hers'), (2, 'bob', true, 'his, for all'), (3, 'bob', false, 'his');
		ALTER TABLE notes ENABLE ROW LEVEL SECURITY;
		CREATE FUNCTION me() RETURNS text LANGUAGE sql STABLE AS $$ SELECT current_setting('request.jwt.claims', true)::json->>'sub' $$;
		CREATE POLICY see ON notes FOR SELECT USING (public OR owner = me());
		CREATE POLICY change ON notes FOR UPDATE USING (owner = me()); CREATE POLICY remove ON notes FOR DELETE USING (owner = me());
		CREATE POLICY add ON notes FOR INSERT WITH CHECK (owner = me());
		GRANT SELECT, INSERT, UPDATE, DELETE ON notes TO ` + role + `; SELECT fence.protect('notes', 'notes')`)
	return w, fence.Identity{Role: role, Claims: `{"sub":"ann"}`}, w.grant("notes", "p", "1").First()
}

func TestRowSecurity(t *testing.T) {
	w, ann, token := newTenants(t)
	ctx := t.Context()
	read := func(key string) (fence.Row, error) {
		return w.Row(ctx, fence.RowRead{Row: fence.RowName{Table: "notes", Key: []string{key}}, Access: fence.Access{Principal: "p", As: ann}})
	}
	write := func(op fence.Op, key, body string, change func(*fence.RowWrite)) (fence.Row, error) {
		token++
		r := rowWrite(op, "notes", key, body, token)
		r.As = ann
		if change != nil {
			change(&r)
		}
		return w.WriteRow(ctx, r)
	}
	for key, want := range map[string]fence.Code{"1": fence.CodeAccepted, "2": fence.CodeAccepted, "3": fence.CodeNotFound, "9": fence.CodeNotFound} {
		if _, err := read(key); fence.CodeOf(err) != want {
			t.Errorf("reading %s: %v", key, err)
		}
	}
	t.Run("OwnRow", func(t *testing.T) {
		row, err := write(fence.OpPatch, "1", `{"text":"new"}`, nil)
		if err != nil || !strings.Contains(string(row.JSON), `"text":"new"`) {
			t.Errorf("%s, %v", row.JSON, err)
		}
		again := rowWrite(fence.OpPatch, "notes", "1", `{"text":"new"}`, token)
		again.As = ann
		if row, err = w.WriteRow(ctx, again); err != nil || !row.Replayed || row.JSON == nil {
			t.Errorf("again: %+v, %v", row, err)
		}
	})
	// What it may see and not change is as absent to it as what it may not see (PostgREST 1843).
	for _, key := range []string{"2", "3", "9"} {
		for _, op := range []fence.Op{fence.OpPatch, fence.OpDelete} {
			t.Run(string(op)+key, func(t *testing.T) {
				body := map[fence.Op]string{fence.OpPatch: `{"text":"mine now"}`}[op]
				before := w.mark("rows/public.notes/" + key)
				_, err := write(op, key, body, nil)
				e := wantCode(t, err, fence.CodeNotFound)
				if e.Message != "there is no such row" || w.mark("rows/public.notes/"+key) != before {
					t.Errorf("%v, the mark is %s", e, w.mark("rows/public.notes/"+key))
				}
			})
		}
	}
	t.Run("InsertOfAnothers", func(t *testing.T) {
		_, err := write(fence.OpPut, "10", `{"owner":"bob"}`, nil)
		wantCode(t, err, fence.CodeForbidden)
		if w.mark("rows/public.notes/10") != "0" {
			t.Error("the mark was raised")
		}
	})
	t.Run("GivenAway", func(t *testing.T) {
		_, err := write(fence.OpPatch, "1", `{"owner":"bob"}`, nil)
		wantCode(t, err, fence.CodeForbidden)
	})
	t.Run("SuppressedByATrigger", func(t *testing.T) {
		w.exec(`CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
			CREATE TRIGGER s BEFORE UPDATE OR DELETE ON notes FOR EACH ROW EXECUTE FUNCTION swallow()`)
		defer w.exec("DROP TRIGGER s ON notes")
		_, err := write(fence.OpPatch, "1", `{"text":"x"}`, nil)
		wantCode(t, err, fence.CodeWriteSuppressed)
		_, err = write(fence.OpPatch, "2", `{"text":"x"}`, nil)
		wantCode(t, err, fence.CodeNotFound)
		_, err = write(fence.OpDelete, "1", "", nil)
		wantCode(t, err, fence.CodeWriteSuppressed)
	})
	t.Run("NothingStaysInTheSession", func(t *testing.T) {
		for range 20 {
			row, err := w.Row(ctx, fence.RowRead{Row: fence.RowName{Table: "notes", Key: []string{"3"}}})
			if err != nil || row.JSON == nil {
				t.Fatalf("the gateway's own role sees %s, %v", row.JSON, err)
			}
		}
	})
	t.Run("Commit", func(t *testing.T) {
		token++
		hers, his := rowWrite(fence.OpPatch, "notes", "1", `{"text":"a"}`, token), rowWrite(fence.OpPatch, "notes", "2", `{"text":"a"}`, token)
		_, err := w.Commit(ctx, fence.Commit{Principal: "p", As: ann, Writes: []fence.CommitWrite{{Row: as(hers, ann)}, {Row: as(his, ann)}}})
		if e := wantCode(t, err, fence.CodeNotFound); e.Write != 2 {
			t.Error(err)
		}
		_, err = w.Commit(ctx, fence.Commit{Principal: "p", As: ann, Writes: []fence.CommitWrite{{Row: as(hers, ann)}}})
		wantCode(t, err, fence.CodeAccepted)
	})
	t.Run("RoleThatIsNot", func(t *testing.T) {
		none := fence.Identity{Role: "fencegate_test_nobody"}
		_, err := w.Row(ctx, fence.RowRead{Row: fence.RowName{Table: "notes", Key: []string{"1"}}, Access: fence.Access{As: none}})
		wantCode(t, err, fence.CodeForbidden)
		_, err = write(fence.OpPatch, "1", `{"text":"x"}`, func(r *fence.RowWrite) { r.As = none })
		wantCode(t, err, fence.CodeForbidden)
	})
}

func as(w fence.RowWrite, id fence.Identity) *fence.RowWrite {
	w.As = id
	return &w
}

// The rights of the role are all that count: on columns, too.
func TestRoleWithRightsOnColumns(t *testing.T) {
	w := newWorld(t)
	role := testRole(t, w)
	w.exec("GRANT SELECT (id, balance), UPDATE (balance) ON wallets TO " + role)
	id := fence.Identity{Role: role}
	token := w.grant("wallet:42", "p", "1").First()
	read := fence.RowRead{Row: fence.RowName{Table: "wallets", Key: []string{"42"}}, Access: fence.Access{As: id}}
	_, err := w.Row(t.Context(), read)
	wantCode(t, err, fence.CodeForbidden)
	read.Shown = []string{"balance"}
	row, err := w.Row(t.Context(), read)
	if err != nil || string(row.JSON) != `{"id":42,"balance":100}` {
		t.Errorf("%s, %v", row.JSON, err)
	}
	write := rowWrite(fence.OpPatch, "wallets", "42", `{"balance":7}`, token)
	write.As, write.Shown = id, []string{"balance"}
	if row, err = w.WriteRow(t.Context(), write); err != nil || string(row.JSON) != `{"id":42,"balance":7}` {
		t.Errorf("%s, %v", row.JSON, err)
	}
	write = rowWrite(fence.OpPatch, "wallets", "42", `{"owner":"eve"}`, token+1)
	write.As, write.Shown = id, []string{}
	_, err = w.WriteRow(t.Context(), write)
	wantCode(t, err, fence.CodeForbidden)
}

func TestColumnsOfAPrincipal(t *testing.T) {
	w := newWorld(t)
	token := w.grant("wallet:42", "p", "1").First()
	limited := func(op fence.Op, body string) fence.RowWrite {
		token++
		r := rowWrite(op, "wallets", "42", body, token)
		r.Settable, r.Shown = []string{"balance"}, []string{"balance"}
		return r
	}
	row, err := w.WriteRow(t.Context(), limited(fence.OpPatch, `{"id":42,"balance":7}`))
	if err != nil || string(row.JSON) != `{"id":42,"balance":7}` {
		t.Errorf("%s, %v", row.JSON, err)
	}
	for _, name := range []string{"owner", "nonsense"} {
		_, err := w.WriteRow(t.Context(), limited(fence.OpPatch, `{"balance":8,"`+name+`":"eve"}`))
		if e := wantCode(t, err, fence.CodeForbidden); e.Field != name {
			t.Errorf("%+v", e)
		}
	}
	// To replace a row resets what it does not name.
	_, err = w.WriteRow(t.Context(), limited(fence.OpPut, `{"balance":8}`))
	wantCode(t, err, fence.CodeForbidden)
	if got := w.text("SELECT owner || balance FROM wallets"); got != "alice7" {
		t.Error(got)
	}
}
