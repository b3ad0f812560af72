package e2e

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
)

const rowsSQL = `
CREATE SCHEMA sales;
CREATE TABLE sales.orders (region text, order_id int, total numeric, PRIMARY KEY (region, order_id));
SELECT fence.protect('sales.orders', 'order:{region}/{order_id}');
CREATE SCHEMA "a.b";
CREATE TABLE "a.b"."Reply" (id int, "Sub" text, "Text" text, PRIMARY KEY (id, "Sub"));
SELECT fence.protect('"a.b"."Reply"', 'reply');
CREATE TABLE things (id uuid PRIMARY KEY, big bigint, exact numeric, doc json, at timestamptz, flag boolean, many int[]);
SELECT fence.protect('things', 'thing:{id}');
CREATE TABLE amounts (id numeric PRIMARY KEY, note text);
SELECT fence.protect('amounts', 'amount:{id}');
CREATE TABLE accounts (id bigint PRIMARY KEY, email text CONSTRAINT one_email UNIQUE, age int CONSTRAINT age_positive CHECK (age >= 0),
	parent bigint CONSTRAINT parent_exists REFERENCES accounts, heir bigint CONSTRAINT heir_exists REFERENCES accounts DEFERRABLE INITIALLY DEFERRED, name text NOT NULL DEFAULT 'x', doubled int GENERATED ALWAYS AS (age * 2) STORED);
INSERT INTO accounts (id, email, age) VALUES (1, 'a@example', 1), (2, 'b@example', 2);
SELECT fence.protect('accounts', 'account:{id}');
CREATE TABLE silent (id int PRIMARY KEY, v int);
INSERT INTO silent VALUES (1, 1);
CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER swallow BEFORE INSERT OR UPDATE OR DELETE ON silent FOR EACH ROW EXECUTE FUNCTION swallow();
SELECT fence.protect('silent', 'silent');
`

// TestRowNames: one row has one name and one lease, however its table and key are spelled.
func TestRowNames(t *testing.T) {
	w, s := shared(t)
	execSQL(t, s.database, rowsSQL)
	const uuid = "c0ffee00-0000-4000-8000-00000000abcd"
	for _, tt := range []struct {
		resource, lease, body string
		spellings             []string
	}{
		{"rows/public.wallets/42", "wallet:42", `{"balance":1}`, []string{"wallets/42", "wallets/042", "wallets/+42", "wallets/%2B42", "public.wallets/42", "WALLETS/42", "%22wallets%22/%34%32", "wallets/%2042%20"}},
		{"rows/public.wallets/-7", "wallet:-7", `{"balance":1}`, []string{"wallets/-7", "wallets/-007"}},
		{"rows/public.things/" + uuid, "thing:" + uuid, `{"big":1}`, []string{"things/" + uuid, "things/" + strings.ToUpper(uuid), "things/%7B" + uuid + "%7D"}},
		{"rows/public.amounts/1", "amount:1", `{"note":"a"}`, []string{"amounts/1", "amounts/1.0", "amounts/1e0", "amounts/01.000"}},
		{"rows/public.amounts/0.5", "amount:0.5", `{"note":"a"}`, []string{"amounts/0.5", "amounts/.50", "amounts/5e-1"}},
		{"rows/sales.orders/eu,7", "order:eu/7", `{"total":1}`, []string{"sales.orders/eu,7", "sales.orders/eu,+007", "SALES.orders/%65u,7"}},
		{"rows/sales.orders/eu%2Cwest%2F1%20%25,7", "order:eu,west/1 %/7", `{"total":1}`, []string{"sales.orders/eu%2Cwest%2F1%20%25,7", "sales.orders/eu%2cwest%2f1%20%25,7"}},
		{"rows/sales.orders/%C3%BC,7", "order:ü/7", `{"total":1}`, []string{"sales.orders/%C3%BC,7"}},
		{`rows/"a.b"."Reply"/7,x`, "reply", `{"Text":"t"}`, []string{"%22a.b%22.%22Reply%22/7,x", "%22a.b%22.%22Reply%22/07,x"}},
	} {
		t.Run(tt.lease, func(t *testing.T) {
			w := w.in(t)
			g := w.acquire(tt.lease)
			for i, spelling := range tt.spellings {
				path := "/v1/rows/" + spelling
				r := w.do("PUT", path, tt.body, g.token(int64(i)))
				if !r.ok() || r.status != 200 && i > 0 {
					t.Fatalf("got %v", r)
				}
				r.knowsMark(t)
				if lease, err := url.PathUnescape(r.header.Get("X-Fence-Lease")); err != nil || lease != tt.lease {
					t.Errorf("%s: lease %q, %v", spelling, lease, err)
				}
				r = w.want(200, "GET", "/v1/marks/rows/"+spelling, "")
				if !strings.HasPrefix(r.body, fmt.Sprintf(`{"resource":%s,"token":%d,`, quoted(tt.resource), g.Token+int64(i))) {
					t.Errorf("%s: %s", spelling, r.body)
				}
				w.refusedWith(g.Token+int64(i), 412, "spent-token", "PATCH", path, tt.body, g.token(int64(i)))
				w.want(200, "GET", path, "")
			}
			w.release(g)
		})
	}
}

func quoted(s string) string { return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"` }

// TestRowKeyRefusals: a malformed name is refused, and the part that is wrong is named.
func TestRowKeyRefusals(t *testing.T) {
	w, s := shared(t)
	execSQL(t, s.database, rowsSQL)
	for path, field := range map[string]string{
		"wallets/x":                          "id",
		"wallets/":                           "id",
		"wallets/1.5":                        "id",
		"wallets/9223372036854775808":        "id",
		"wallets/1,2":                        "id",
		"sales.orders/eu":                    "order_id",
		"sales.orders/eu,":                   "order_id",
		"sales.orders/,7":                    "region",
		"sales.orders/eu,7,8":                "order_id",
		"sales.orders/eu,x":                  "order_id",
		"things/1":                           "id",
		"%22a.b%22.%22Reply%22/7":            "Sub",
		"wallets/1/2":                        "key",
		"wallets/%00":                        "key",
		"wallets/%ff":                        "key",
		"/1":                                 "table",
		"sales.orders/" + long(2600) + ",7":  "",
		"sales.orders/" + long(16384) + ",7": "path",
	} {
		t.Run(path[:min(len(path), 40)], func(t *testing.T) {
			w := w.in(t)
			for _, method := range []string{"GET", "PATCH", "PUT", "DELETE"} {
				body := ""
				switch {
				case method == "PUT":
					body = "{}"
				case method == "PATCH" && strings.HasPrefix(path, "wallets"):
					body = `{"balance":1}`
				case method == "PATCH":
					continue
				}
				p := w.refused(400, "invalid-request", method, "/v1/rows/"+path, body, "X-Fence-Token: 1000")
				detail, _ := p["detail"].(string)
				if got, _ := p["field"].(string); got != field {
					t.Errorf("%s: field %q, want %q: %s", method, got, field, detail)
				}
				if !strings.Contains(detail, field) {
					t.Errorf("%s: the detail does not name %s: %s", method, field, detail)
				}
			}
		})
	}
	for _, table := range []string{"a.b.c", "%22", "no such", `"open`} {
		if p := w.refused(400, "invalid-request", "GET", "/v1/rows/"+url.PathEscape(table)+"/1", ""); p["field"] != "table" {
			t.Errorf("%s: field %v", table, p["field"])
		}
	}
	for _, table := range []string{"nosuch", "fence.grants", "pg_catalog.pg_class"} {
		w.refused(404, "not-found", "GET", "/v1/rows/"+url.PathEscape(table)+"/1", "")
	}
}

func long(n int) string { return strings.Repeat("x", n) }

// TestRowValues: values come back with every digit, and one that does not fit is refused by name.
func TestRowValues(t *testing.T) {
	w, s := shared(t)
	execSQL(t, s.database, rowsSQL)
	const path = "/v1/rows/things/c0ffee00-0000-4000-8000-00000000abcd"
	g := w.acquire("thing:c0ffee00-0000-4000-8000-00000000abcd")
	const digits = "123456789012345678901234567890.123456789012345678901234567891"
	n := int64(0)
	for name, value := range map[string]string{
		"exact": digits, "big": "9223372036854775807", "doc": `{"n":1.10,"z":0,"a":[1e2]}`, "flag": "true", "many": "[1,2,null]",
	} {
		n++
		r := w.do("PUT", path, fmt.Sprintf(`{%q:%s}`, name, value), g.token(n))
		if !r.ok() || !strings.Contains(r.body, fmt.Sprintf(`%q:%s`, name, value)) {
			t.Errorf("%s %s: %v", name, value, r)
		}
		if got := w.want(200, "GET", path, "").body; got != r.body {
			t.Errorf("read %s, wrote %s", got, r.body)
		}
	}
	mark := w.mark(path)
	for body, field := range map[string]string{
		`{"nothing":1}`:               "nothing",
		`{"big":9223372036854775808}`: "big",
		`{"big":"x"}`:                 "big",
		`{"big":1.5}`:                 "big",
		`{"exact":"abc"}`:             "exact",
		`{"at":"yesterday-ish"}`:      "at",
		`{"many":[1,"x"]}`:            "many",
		`{"many":7}`:                  "many",
		`{"id":"` + strings.ToUpper("c0ffee00-0000-4000-8000-00000000abce") + `","big":1}`: "id",
	} {
		for _, method := range []string{"PATCH", "PUT"} {
			n++
			p := w.refused(400, "invalid-request", method, path, body, g.token(n))
			detail, _ := p["detail"].(string)
			if p["field"] != field || !strings.Contains(detail, field) {
				t.Errorf("%s %s: field %v, detail %q", method, body, p["field"], detail)
			}
		}
	}
	// The body may repeat the key, in any spelling.
	n++
	w.want(200, "PATCH", path, `{"id":"C0FFEE00-0000-4000-8000-00000000ABCD","big":2}`, g.token(n))
	if mark+1 > w.mark(path) {
		t.Fatal("the mark did not rise")
	}
}

// TestRowConstraints (I5): a violated constraint is named, and neither row nor mark changes.
func TestRowConstraints(t *testing.T) {
	w, s := shared(t)
	execSQL(t, s.database, rowsSQL)
	const path = "/v1/rows/accounts/2"
	g := w.acquire("account:2")
	w.want(200, "PATCH", path, `{"age":3}`, g.token(0))
	before := w.want(200, "GET", path, "").body
	n := int64(0)
	for body, constraint := range map[string]string{
		`{"email":"a@example"}`: "one_email", `{"age":-1}`: "age_positive", `{"parent":99}`: "parent_exists", `{"heir":99}`: "heir_exists", `{"name":null}`: "name",
	} {
		n++
		p := w.refusedWith(g.Token, 409, "constraint-violation", "PATCH", path, body, g.token(n))
		if got, _ := p["constraint"].(string); !strings.Contains(got, constraint) {
			t.Errorf("%s: constraint %v", body, p["constraint"])
		}
	}
	first := w.acquire("account:1")
	w.want(200, "PATCH", path, `{"parent":1}`, g.token(n+1))
	p := w.refusedWith(0, 409, "constraint-violation", "DELETE", "/v1/rows/accounts/1", "", first.token(0))
	if p["constraint"] != "parent_exists" {
		t.Errorf("got %v", p)
	}
	w.want(200, "PATCH", path, `{"parent":null}`, g.token(n+2))
	if got := w.want(200, "GET", path, "").body; got != before {
		t.Errorf("the row is %s, was %s", got, before)
	}
	if p := w.refused(400, "invalid-request", "PATCH", path, `{"doubled":1}`, g.token(n+3)); p["field"] != "doubled" {
		t.Errorf("got %v", p)
	}
	silent := w.acquire("silent")
	for method, body := range map[string]string{"PATCH": `{"v":2}`, "PUT": `{"v":2}`, "DELETE": ""} {
		w.refusedWith(0, 409, "write-suppressed", method, "/v1/rows/silent/1", body, silent.token(0))
	}
	w.refusedWith(0, 409, "write-suppressed", "PUT", "/v1/rows/silent/2", `{"v":2}`, silent.token(0))
}

// TestRowLifecycle (I1, I5): marks rise across absence, deletion and re-creation.
func TestRowLifecycle(t *testing.T) {
	w, _ := shared(t)
	const path = "/v1/rows/wallets/777"
	g := w.acquire("wallet:777")
	w.refusedWith(0, 404, "not-found", "GET", path, "")
	w.refusedWith(0, 404, "not-found", "PATCH", path, `{"balance":1}`, g.token(0))
	w.refusedWith(0, 404, "not-found", "DELETE", path, "", g.token(0))
	w.refusedWith(0, 412, "precondition-failed", "PUT", path, `{"balance":1}`, g.token(0), "If-Match: *")
	if got := w.mark(path); got != 0 {
		t.Fatalf("a refusal moved the mark to %d", got)
	}
	r := w.want(201, "PUT", path, `{"balance":1,"owner":"ann"}`, g.token(0), "If-None-Match: *")
	if r.body != `{"id":777,"owner":"ann","balance":1}`+"\n" && r.body != `{"id":777,"owner":"ann","balance":1}` {
		t.Fatalf("got %s", r.body)
	}
	w.refusedWith(g.Token, 412, "precondition-failed", "PUT", path, `{"balance":1}`, g.token(1), "If-None-Match: *")
	// Columns that are left out take their defaults.
	if got := w.want(200, "PUT", path, `{"balance":2}`, g.token(1), "If-Match: *").body; !strings.Contains(got, `"owner":"nobody","balance":2`) {
		t.Fatalf("got %s", got)
	}
	r = w.want(204, "PATCH", path, `{"balance":3}`, g.token(2), "Prefer: return=minimal")
	if r.body != "" || r.header.Get("Preference-Applied") != "return=minimal" {
		t.Fatalf("got %v", r)
	}
	w.want(204, "DELETE", path, "", g.token(3))
	w.refusedWith(g.Token+3, 404, "not-found", "GET", path, "")
	w.refusedWith(g.Token+3, 412, "stale-token", "PUT", path, `{"balance":9}`, g.token(2))
	w.refusedWith(g.Token+3, 412, "spent-token", "PUT", path, `{"balance":9}`, g.token(3))
	w.refusedWith(g.Token+3, 404, "not-found", "PATCH", path, `{"balance":9}`, g.token(4))
	if r := w.want(201, "PUT", path, `{"balance":4}`, g.token(4)); r.header.Get("ETag") != fmt.Sprintf(`"%d"`, g.Token+4) {
		t.Fatalf("got %v", r)
	}
	if r := w.want(201, "PUT", path, `{"balance":4}`, g.token(4)); !r.replayed() {
		t.Fatalf("got %v", r)
	}
	w.release(g)
	next := w.acquire("wallet:777")
	w.want(204, "DELETE", path, "", next.token(0))
	w.refusedWith(next.Token, 412, "stale-token", "PUT", path, `{"balance":9}`, g.token(5))
	w.refusedWith(next.Token, 404, "not-found", "GET", path, "")
}

// TestTableThatChanges: a gateway that knows an older table still does what the table says now.
func TestTableThatChanges(t *testing.T) {
	w, s := shared(t)
	g := w.acquire("wallet:1")
	w.want(200, "PATCH", rowPath1, `{"balance":1}`, g.token(0))
	execSQL(t, s.database, "ALTER TABLE wallets ADD COLUMN fresh int")
	if got := w.want(200, "PATCH", rowPath1, `{"fresh":1}`, g.token(1)).body; !strings.Contains(got, `"fresh":1`) {
		t.Errorf("got %s", got)
	}
	execSQL(t, s.database, "ALTER TABLE wallets DROP COLUMN fresh")
	if p := w.refused(400, "invalid-request", "PATCH", rowPath1, `{"fresh":2}`, g.token(2)); p["field"] != "fresh" {
		t.Errorf("got %v", p)
	}
	// I2: a new template is in force when protect returns.
	execSQL(t, s.database, "SELECT fence.protect('wallets', 'purse:{id}')")
	p := w.refusedWith(g.Token+1, 403, "unissued-token", "PATCH", rowPath1, `{"balance":2}`, g.token(2))
	if p["lease"] != "purse:1" {
		t.Errorf("got %v", p)
	}
	w.want(200, "PATCH", rowPath1, `{"balance":2}`, w.acquire("purse:1").token(0))
	execSQL(t, s.database, "DELETE FROM fence.protected WHERE name = 'public.wallets'")
	w.refused(404, "not-found", "PATCH", rowPath1, `{"balance":3}`, g.token(3))
}

// TestReplayOfARowThatIsGone: it was written, and there is nothing to show any more.
func TestReplayOfARowThatIsGone(t *testing.T) {
	w, s := shared(t)
	g := w.acquire("wallet:5")
	w.want(200, "PATCH", "/v1/rows/wallets/5", `{"balance":1}`, g.token(0))
	execSQL(t, s.database, "DELETE FROM wallets WHERE id = 5")
	if r := w.want(204, "PATCH", "/v1/rows/wallets/5", `{"balance":1}`, g.token(0)); !r.replayed() {
		t.Fatalf("got %v", r)
	}
}
