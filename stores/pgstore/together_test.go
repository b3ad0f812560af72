package pgstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores/pgstore"
)

// twins are two ledgers that are alike: the writes of one go together, those of the other each alone.
type twins struct {
	t               *testing.T
	together, alone *world
}

func newTwins(t *testing.T, sql string, leases ...string) *twins {
	p := &twins{t: t, together: newWorld(t), alone: newWorld(t)}
	for _, w := range []*world{p.together, p.alone} {
		w.exec(sql)
		for _, lease := range leases {
			w.grant(lease, "p", "1")
		}
	}
	store, err := pgstore.Open(pgstore.Config{URL: p.alone.url, Lanes: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	p.alone.Store = store
	return p
}

// answered is all that a write returns, but for the moment of the write.
type answered struct {
	Code, Message, Field, Constraint string
	State                            fence.State
	First                            fence.Token
	Holder                           string
	JSON                             string
	Created, Replayed                bool
	Object                           fence.Object
}

func answerOf(row fence.Row, object fence.Object, err error) answered {
	a := answered{Code: string(fence.CodeOf(err)), State: row.State, JSON: string(row.JSON), Created: row.Created, Replayed: row.Replayed, Object: object}
	var e *fence.Error
	if errors.As(err, &e) {
		a.Message, a.Field, a.Constraint, a.First, a.Holder = e.Message, e.Field, e.Constraint, e.First, e.Holder
		if e.State != nil {
			a.State = *e.State
		}
	}
	a.State.WrittenAt, a.Object.WrittenAt, a.Object.ModifiedAt = time.Time{}, time.Time{}, time.Time{}
	a.Object.Blob = ""
	return a
}

// play makes the calls in both ledgers, in one as batches, and reports where their answers differ.
func (p *twins) play(calls []func(*world) answered, say func(i int) string) []answered {
	p.t.Helper()
	land := p.together.HoldLane()
	var (
		answers = make([]answered, len(calls))
		came    = make([]chan answered, len(calls))
		queued  []int
	)
	compare := func(i int) {
		p.t.Helper()
		if want := calls[i](p.alone); !reflect.DeepEqual(answers[i], want) {
			land()
			p.t.Fatalf("%s\ntogether: %+v\nalone:    %+v", say(i), answers[i], want)
		}
	}
	for i, call := range calls {
		came[i] = make(chan answered, 1)
		go func() { came[i] <- call(p.together) }()
		if p.isQueued(len(queued)+1, came[i]) {
			queued = append(queued, i)
			continue
		}
		answers[i] = <-came[i] // it goes alone, or is refused before anything is sent
		compare(i)
	}
	land()
	for _, i := range queued {
		answers[i] = <-came[i]
		compare(i)
	}
	return answers
}

// isQueued waits until a write has queued up as the n-th, or has been answered.
func (p *twins) isQueued(n int, came chan answered) bool {
	p.t.Helper()
	for end := time.Now().Add(10 * time.Second); p.together.QueuedWrites() != n; time.Sleep(50 * time.Microsecond) {
		if len(came) > 0 {
			return false
		}
		if time.Now().After(end) {
			p.t.Fatalf("%d writes wait, want %d", p.together.QueuedWrites(), n)
		}
	}
	return true
}

// same compares what the ledgers hold after all.
func (p *twins) same(sql string) {
	p.t.Helper()
	if together, alone := p.together.text(sql), p.alone.text(sql); together != alone {
		p.t.Errorf("%s\ntogether: %s\nalone:    %s", sql, together, alone)
	}
}

const togetherTables = `INSERT INTO wallets SELECT i, 'owner', i FROM generate_series(1, 8) i; SELECT fence.protect('wallets', 'wallets');
	CREATE TABLE seats (hall text, no integer, guest text, fee numeric(6,2) NOT NULL DEFAULT 1.50, twice numeric GENERATED ALWAYS AS (fee * 2) STORED, PRIMARY KEY (hall, no));
	INSERT INTO seats SELECT 'a', i, 'nobody' FROM generate_series(1, 4) i; INSERT INTO seats VALUES ('ü/,', 1, 'x'); SELECT fence.protect('seats', 'seats');
	CREATE TABLE logged (id uuid PRIMARY KEY, n int NOT NULL, text text);
	INSERT INTO logged SELECT ('00000000-0000-0000-0000-00000000000' || i)::uuid, i, '' FROM generate_series(1, 5) i;
	CREATE FUNCTION log() RETURNS trigger LANGUAGE plpgsql AS $$
	BEGIN
		IF NEW.n = 13 THEN RETURN NULL; END IF;
		IF NEW.n = 66 THEN RAISE EXCEPTION 'no'; END IF;
		NEW.text := coalesce(OLD.text, '') || NEW.n;
		RETURN NEW;
	END $$;
	CREATE TRIGGER log BEFORE INSERT OR UPDATE ON logged FOR EACH ROW EXECUTE FUNCTION log(); SELECT fence.protect('logged', 'logged')`

// TestTogetherAsAlone plays random writes as batches in one ledger and each alone in another that is alike: all answers, rows and marks
// are the same.
func TestTogetherAsAlone(t *testing.T) {
	p := newTwins(t, togetherTables, "wallets", "seats", "logged")
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	g := &writeMaker{rng: rand.New(rand.NewPCG(seed, 0)), next: map[string]fence.Token{}}
	for _, lease := range []string{"wallets", "seats", "logged"} {
		g.next[lease] = tokenIn(p.alone, "SELECT first::text FROM fence.grants WHERE lease = $1", lease)
	}
	codes := make(map[string]int)
	wanted := []string{"accepted", "replayed", "stale-token", "spent-token", "foreign-token", "unissued-token", "precondition-failed", "not-found",
		"constraint-violation", "invalid-request", "write-suppressed"}
	for round := 0; round < 25 || round < 400 && missing(codes, wanted) != ""; round++ {
		var (
			writes []fence.RowWrite
			calls  []func(*world) answered
		)
		for range 1 + g.rng.IntN(16) {
			x := g.write()
			writes = append(writes, x)
			calls = append(calls, func(w *world) answered {
				row, err := w.WriteRow(context.Background(), x)
				return answerOf(row, fence.Object{}, err)
			})
		}
		for _, a := range p.play(calls, func(i int) string { return fmt.Sprintf("%+v %s", writes[i], writes[i].Body) }) {
			codes[a.Code]++
			if a.Replayed {
				codes["replayed"]++
			}
		}
	}
	t.Logf("%v, %+v", codes, p.together.Stats().Batches)
	if code := missing(codes, wanted); code != "" {
		t.Errorf("no write was %s", code)
	}
	for _, table := range []string{"wallets", "seats", "logged"} {
		p.same("SELECT coalesce(string_agg(t::text, ';' ORDER BY t::text), '') FROM " + table + " t")
	}
	p.same("SELECT string_agg(concat_ws(' ', resource, token, lease, principal, encode(digest, 'hex'), created), ';' ORDER BY resource) FROM fence.marks")
	if n := p.together.Writing(); n != 0 {
		t.Errorf("%d resources are still being written", n)
	}
}

// missing is a code that was wanted and did not come, empty when there is none.
func missing(codes map[string]int, wanted []string) string {
	for _, code := range wanted {
		if codes[code] == 0 {
			return code
		}
	}
	return ""
}

func tokenIn(w *world, sql string, args ...any) fence.Token {
	n, err := strconv.ParseInt(w.text(sql, args...), 10, 64)
	if err != nil {
		w.t.Fatal(err)
	}
	return fence.Token(n)
}

// writeMaker makes writes, good and bad.
type writeMaker struct {
	rng  *rand.Rand
	next map[string]fence.Token
	done []fence.RowWrite
}

func (g *writeMaker) pick(of ...string) string { return of[g.rng.IntN(len(of))] }

func (g *writeMaker) write() fence.RowWrite {
	if len(g.done) > 0 && g.rng.IntN(7) == 0 {
		x := g.done[max(0, len(g.done)-1-g.rng.IntN(8))] // again: a replay, or stale
		if x.Op != fence.OpDelete && g.rng.IntN(3) == 0 {
			x.Body = append(slices.Clone(x.Body), ' ') // another request with the same token
		}
		return x
	}
	table := g.pick("wallets", "seats", "logged")
	x := fence.RowWrite{Op: fence.Op(g.pick("patch", "patch", "patch", "put", "put", "delete")), Row: fence.RowName{Table: table}, Access: fence.Access{Principal: "p"}}
	body := map[string]any{}
	switch table {
	case "wallets":
		x.Row.Key = []string{g.pick("1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "042", "none")}
		body["balance"] = json.RawMessage(g.pick("1", "2.50", "-1", "12345678901234567890.5", `"7"`, `"x"`, "null"))
		if x.Op == fence.OpPut || g.rng.IntN(3) == 0 {
			body["owner"] = g.pick("ann", "bob", "ü\"'")
		}
	case "seats":
		x.Row.Key = []string{g.pick("a", "a", "ü/,"), g.pick("1", "2", "3", "4", "5")}
		for _, column := range []string{"guest", "fee", "twice", "nix", "no"} {
			if g.rng.IntN(3) == 0 && (column != "twice" && column != "nix" || g.rng.IntN(6) == 0) {
				body[column] = json.RawMessage(g.pick("1", "2", "3.999", `"12"`, "null"))
			}
		}
	case "logged":
		x.Row.Key = []string{"00000000-0000-0000-0000-00000000000" + g.pick("1", "2", "3", "4", "5", "6", "A")}
		body["n"] = json.RawMessage(g.pick("1", "2", "3", "4", "13", "13", "66", "99999999999"))
	}
	if x.Op != fence.OpDelete {
		x.Body, _ = json.Marshal(body)
		x.Columns = namesIn(string(x.Body))
	}
	switch g.rng.IntN(10) {
	case 0:
		x.If.Absent = true
	case 1:
		x.If.Exists = true
	case 2:
		x.If.Match = []fence.Token{0, g.next[table]}
	case 3:
		x.If.NoneMatch = []fence.Token{g.next[table]}
	}
	x.NumbersAsText = g.rng.IntN(5) == 0
	if g.rng.IntN(5) == 0 {
		x.Shown = []string{g.pick("owner", "guest", "n")}
	}
	g.next[table]++
	x.Token = g.next[table]
	switch g.rng.IntN(25) {
	case 0:
		x.Token -= fence.Token(1 + g.rng.IntN(4))
	case 1:
		x.Token = 999_999_999_999_999
	case 2:
		x.Token = 7
	case 3:
		x.Principal = "q"
	}
	g.done = append(g.done, x)
	return x
}

// TestEachWriteAlone runs tests of writes with a transaction for each, as they are made that cannot go with others. Elsewhere they go together.
func TestEachWriteAlone(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"Patch": TestPatch, "PutAndDelete": TestPutAndDelete, "Existence": TestExistence, "Suppressed": TestSuppressed, "ConcurrentWrites": TestConcurrentWrites,
		"NumbersAsText": TestNumbersAsText, "RowSecurity": TestRowSecurity, "Objects": TestObjects, "Versions": TestVersions, "EveryType": TestEveryType,
		"SettingsDoNotAdmit": TestSettingsDoNotAdmit, "ReplayedWhateverCameAfter": TestReplayedWhateverCameAfter,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t)
		})
	}
}
