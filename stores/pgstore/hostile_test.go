package pgstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/fencegate/fencegate/fence"
)

// A row must not be created under another row's name: not by the precision of the key's column, not by a trigger.
func TestPutUnderAnotherName(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ typ, bad string }{
		{"numeric(10,2)", "1.005"}, {"varchar(3)", "abc "}, {"timestamp(0)", "2026-01-01 00:00:00.3"}, {"time(0)", "01:00:00.2"},
		{"timestamptz(0)", "2026-01-01 00:00:00.2+00"},
	} {
		w.exec(`DROP TABLE IF EXISTS k; CREATE TABLE k (id ` + c.typ + ` PRIMARY KEY, v int); SELECT fence.protect('k', 'k')`)
		g := w.grant("k", "p", c.typ)
		_, err := w.WriteRow(t.Context(), rowWrite(fence.OpPut, "k", c.bad, `{"v":1}`, g.First()))
		if e := wantCode(t, err, fence.CodeInvalidRequest); !strings.Contains(e.Message, "another key") {
			t.Errorf("%s: %v", c.typ, e)
		}
	}
	w.exec(`CREATE TABLE users (email text PRIMARY KEY, v int); INSERT INTO users VALUES ('x', 0), ('y', 0);
		CREATE FUNCTION low() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.email := CASE NEW.email WHEN 'x' THEN 'z' ELSE lower(NEW.email) END; RETURN NEW; END $$;
		CREATE TRIGGER low BEFORE INSERT OR UPDATE ON users FOR EACH ROW EXECUTE FUNCTION low(); SELECT fence.protect('users', 'u')`)
	g := w.grant("u", "p", "1")
	for _, x := range []fence.RowWrite{rowWrite(fence.OpPut, "users", "Bob", `{"v":1}`, g.First()), patch("users", "x", `{"v":1}`, g.First())} {
		_, err := w.WriteRow(t.Context(), x)
		wantCode(t, err, fence.CodeInvalidRequest)
	}
	if marks := w.text("SELECT count(*)::text FROM fence.marks"); marks != "0" {
		t.Errorf("%s marks were raised", marks)
	}
	_, err := w.WriteRow(t.Context(), patch("users", "y", `{"v":1}`, g.First()))
	wantCode(t, err, fence.CodeAccepted)
}

// A table that was altered after it was protected is refused, or its single rows stay single.
func TestAlteredTable(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.exec(`CREATE TABLE k (id int PRIMARY KEY, region text NOT NULL DEFAULT 'eu', v int); INSERT INTO k VALUES (1, 'eu', 1); SELECT fence.protect('k', 'k')`)
	g := w.grant("k", "p", "1")
	if _, err := w.WriteRow(ctx, patch("k", "1", `{"v":2}`, g.First())); err != nil {
		t.Fatal(err)
	}
	t.Run("KeyWidened", func(t *testing.T) {
		w.exec("ALTER TABLE k DROP CONSTRAINT k_pkey; ALTER TABLE k ADD PRIMARY KEY (id, region); INSERT INTO k VALUES (1, 'us', 2)")
		for _, x := range []fence.RowWrite{patch("k", "1", `{"v":9}`, g.First()+1), rowWrite(fence.OpDelete, "k", "1", "", g.First()+1)} {
			if _, err := w.WriteRow(ctx, x); err == nil {
				t.Errorf("%s changed two rows under one name", x.Op)
			}
		}
		if got := w.text("SELECT string_agg(v::text, ',' ORDER BY region) FROM k"); got != "2,2" {
			t.Errorf("values %s", got)
		}
		if err := w.Protect(ctx, "k", "k"); err != nil {
			t.Error(err)
		}
		_, err := w.WriteRow(ctx, patch("k", "1,us", `{"v":9}`, g.First()+1))
		wantCode(t, err, fence.CodeAccepted)
	})
	t.Run("AttachedPartition", func(t *testing.T) {
		w.exec(`CREATE TABLE pt (id int PRIMARY KEY, v int) PARTITION BY RANGE (id); CREATE TABLE p1 (id int PRIMARY KEY, v int);
			SELECT fence.protect('pt', 'pt'); SELECT fence.protect('p1', 'p1');
			INSERT INTO p1 VALUES (1, 0); ALTER TABLE pt ATTACH PARTITION p1 FOR VALUES FROM (0) TO (100)`)
		g := w.grant("pt", "p", "1")
		_, err := w.WriteRow(ctx, patch("pt", "1", `{"v":9}`, g.First()))
		wantCode(t, err, fence.CodeNotFound)
	})
	t.Run("ColumnsAltered", func(t *testing.T) {
		w.exec(`CREATE TABLE m (id int PRIMARY KEY, v numeric(10,2)); INSERT INTO m VALUES (1, 1); SELECT fence.protect('m', 'm')`)
		g := w.grant("m", "p", "1")
		if _, err := w.WriteRow(ctx, patch("m", "1", `{"v":2}`, g.First())); err != nil {
			t.Fatal(err)
		}
		w.exec("ALTER TABLE m ALTER v TYPE numeric; ALTER TABLE m ADD c int; UPDATE m SET c = 7")
		row, err := w.WriteRow(ctx, patch("m", "1", `{"v":1.23456}`, g.First()+1))
		if wantCode(t, err, fence.CodeAccepted); string(row.JSON) != `{"id":1,"v":1.23456,"c":7}` {
			t.Errorf("%s", row.JSON)
		}
		w.exec("ALTER TABLE m ADD d int; UPDATE m SET d = 8")
		row, err = w.WriteRow(ctx, rowWrite(fence.OpPut, "m", "1", `{"v":1}`, g.First()+2))
		if wantCode(t, err, fence.CodeAccepted); string(row.JSON) != `{"id":1,"v":1,"c":null,"d":null}` {
			t.Errorf("%s", row.JSON)
		}
	})
	t.Run("NameCutTo63Bytes", func(t *testing.T) {
		long := "a" + strings.Repeat("b", 62)
		w.exec("CREATE TABLE " + long + " (id int PRIMARY KEY)")
		wantCode(t, w.Protect(ctx, long+"xyz", "l"), fence.CodeNotFound)
		wantCode(t, w.Protect(ctx, long, "l"), fence.CodeAccepted)
	})
}

// Whoever may create functions and operators in public must not get them called with the gateway's rights.
func TestForeignOperatorsAreNotCalled(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE TABLE loot (what text); CREATE TABLE vk (id varchar PRIMARY KEY, v int); INSERT INTO vk VALUES ('a', 1); SELECT fence.protect('vk', 'vk');
		CREATE FUNCTION public.cat(bigint, text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN INSERT INTO loot VALUES ('||'); RETURN $1::text OPERATOR(pg_catalog.||) $2; END $$;
		CREATE OPERATOR public.|| (leftarg = bigint, rightarg = text, function = public.cat);
		CREATE FUNCTION public.row_to_json(public.wallets) RETURNS json LANGUAGE plpgsql AS $$ BEGIN INSERT INTO loot VALUES ('row_to_json'); RETURN '{}'; END $$;
		CREATE FUNCTION public.veq(varchar, varchar) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN INSERT INTO loot VALUES ('='); RETURN true; END $$;
		CREATE OPERATOR public.= (leftarg = varchar, rightarg = varchar, function = public.veq)`)
	g := w.grant("wallet:42", "p", "1")
	row, err := w.WriteRow(t.Context(), patch("wallets", "42", `{"balance":9}`, g.First()))
	if wantCode(t, err, fence.CodeAccepted); string(row.JSON) != `{"id":42,"owner":"alice","balance":9}` {
		t.Errorf("%s", row.JSON)
	}
	g = w.grant("vk", "p", "1")
	_, err = w.WriteRow(t.Context(), patch("vk", "zzz", `{"v":9}`, g.First()))
	wantCode(t, err, fence.CodeNotFound)
	if loot := w.text("SELECT string_agg(what, ' ') FROM loot"); loot != "<null>" {
		t.Errorf("called: %s", loot)
	}
}

// A trigger that admits another row and swallows the write must not hide that nothing was written (I5).
func TestNestedAdmit(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE TABLE au (id int PRIMARY KEY, v int); INSERT INTO au VALUES (1, 1); SELECT fence.protect('au', 'au')`)
	ga, g := w.grant("au", "p", "1"), w.grant("wallet:42", "p", "1")
	w.exec(`CREATE FUNCTION nest() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM fence.admit('au', '1', ` + ga.First().String() + `); RETURN NULL; END $$;
		CREATE TRIGGER nest BEFORE UPDATE ON wallets FOR EACH ROW EXECUTE FUNCTION nest()`)
	_, err := w.WriteRow(t.Context(), patch("wallets", "42", `{"balance":2}`, g.First()))
	wantCode(t, err, fence.CodeWriteSuppressed)
	if marks := w.text("SELECT count(*)::text FROM fence.marks"); marks != "0" {
		t.Errorf("%s marks were raised", marks)
	}
}

// What a trigger sets in its session does not reach other requests.
func TestSettingsLeftBehind(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE TABLE ev (at timestamptz PRIMARY KEY, v int); INSERT INTO ev VALUES ('2026-01-01 00:00:00+00', 0), ('2025-12-31 15:00:00+00', 0); SELECT fence.protect('ev', 'ev');
		CREATE FUNCTION leave() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('timezone', 'Asia/Tokyo', false),
			set_config('default_transaction_isolation', 'repeatable read', false); RETURN NEW; END $$;
		CREATE TRIGGER leave BEFORE UPDATE ON ev FOR EACH ROW EXECUTE FUNCTION leave()`)
	g := w.grant("ev", "p", "1")
	for i := range 5 {
		_, err := w.WriteRow(t.Context(), patch("ev", "2026-01-01 00:00:00", `{"v":1}`, g.First()+fence.Token(i)))
		wantCode(t, err, fence.CodeAccepted)
		w.grant("other", "p", string(rune('a'+i)))
	}
	if v := w.text("SELECT string_agg(v::text, ',' ORDER BY at) FROM ev"); v != "0,1" {
		t.Errorf("values %s", v)
	}
	t.Run("IsolationAlone", func(t *testing.T) {
		w.exec(`CREATE OR REPLACE FUNCTION leave() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM set_config('default_transaction_isolation', 'repeatable read', false); RETURN NEW; END $$`)
		for i := range 5 {
			_, err := w.WriteRow(t.Context(), patch("ev", "2026-01-01 00:00:00", `{"v":1}`, g.First()+fence.Token(10+i)))
			wantCode(t, err, fence.CodeAccepted)
			w.grant("other", "p", string(rune('k'+i)))
		}
	})
}

// A gateway or worker that stalls in mid-message holds the lease's lock in a session that counts as active: no timeout
// of the server ends it, the next grant does.
func TestStalledWriterDoesNotBlockTheNextGrant(t *testing.T) {
	t.Run("InAPipeline", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		g := w.grant("wallet:42", "p", "1")
		cfg, err := pgconn.ParseConfig(w.url)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := pgconn.ConnectConfig(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		p := conn.StartPipeline(context.Background())
		p.SendQueryParams("SELECT (fence.admit_row('public.wallets', NULL, NULL, NULL, ARRAY['42'], "+g.First().String()+", 'p', NULL, NULL, NULL)).code", nil, nil, nil, nil)
		if err := p.Flush(); err != nil {
			t.Fatal(err)
		}
		w.grantOverStalled()
	})
	t.Run("InCopy", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		g := w.grant("wallet:42", "p", "1")
		conn := w.connect()
		if _, err := conn.Exec(t.Context(), "BEGIN; SELECT fence.admit('wallets', '42', "+g.First().String()+")"); err != nil {
			t.Fatal(err)
		}
		conn.PgConn().Frontend().SendQuery(&pgproto3.Query{String: "COPY wallets FROM STDIN"})
		if err := conn.PgConn().Frontend().Flush(); err != nil {
			t.Fatal(err)
		}
		w.grantOverStalled()
	})
}

func (w *world) grantOverStalled() {
	w.t.Helper()
	for w.text("SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())") == "0" {
		time.Sleep(5 * time.Millisecond)
	}
	began := time.Now()
	next := w.grant("wallet:42", "q", "2")
	w.t.Logf("the next grant waited %v", time.Since(began))
	x := patch("wallets", "42", `{"balance":1}`, next.First())
	x.Principal = "q"
	if _, err := w.WriteRow(context.Background(), x); err != nil {
		w.t.Error(err)
	}
}

func TestExhaustedSequence(t *testing.T) {
	w := newWorld(t)
	w.exec("SELECT setval('fence.blocks', 999999999999)")
	_, err := w.Certify(t.Context(), fence.Certificate{Lease: "l", Principal: "p", Holder: "p", Acquire: fence.DigestOf("x"), TTL: 1e9})
	wantCode(t, err, fence.CodeInternal)
}

func TestDeferredConstraintIsARefusal(t *testing.T) {
	w := newWorld(t)
	w.exec(`CREATE TABLE d (id int PRIMARY KEY, u int UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO d VALUES (1, 1), (2, 2); SELECT fence.protect('d', 'd')`)
	g := w.grant("d", "p", "1")
	_, err := w.WriteRow(t.Context(), patch("d", "1", `{"u":2}`, g.First()))
	if e := wantCode(t, err, fence.CodeConstraintViolation); e.Constraint != "d_u_key" || e.State.Mark != 0 {
		t.Errorf("%+v", e)
	}
}
