package client_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway/client"
)

func patchOf(name fence.RowName, token fence.Token, body string) fence.CommitWrite {
	return fence.CommitWrite{Row: &fence.RowWrite{Op: fence.OpPatch, Row: name, Access: fence.Access{Token: token}, Body: json.RawMessage(body)}}
}

// transfer is a commit over two leases, with a receipt.
func transfer(r *rig) fence.Commit {
	r.t.Helper()
	from, a := r.row("4,2")
	to, b := r.row("43")
	receipt := r.acquire("report:r/1.csv")
	up, err := r.Upload(r.t.Context(), fence.ObjectWrite{Object: object(""), Header: fence.ObjectHeader{ContentType: "text/csv"}, Body: strings.NewReader("a,b\n")})
	if err != nil || up.Size != 4 || up.Bucket != "reports" {
		r.t.Fatalf("upload %+v, %v", up, err)
	}
	return fence.Commit{Writes: []fence.CommitWrite{
		patchOf(from, a, `{"balance": 90}`), patchOf(to, b, `{"balance": 110}`),
		{Blob: up.ID, Object: &fence.ObjectWrite{
			Op: fence.OpPut, Object: object("r/1.csv"), Access: fence.Access{Token: receipt.First()}, If: fence.Condition{Absent: true},
		}},
	}}
}

func TestCommit(t *testing.T) {
	for name, between := range map[string]func(http.ResponseWriter, *http.Request, int, http.Handler){
		"OK": nil, "LostReply": losing(1), "LostRequest": dropping(1), "Contention": refusing(1, 503, fence.CodeContention),
	} {
		t.Run(name, func(t *testing.T) {
			r := serve(t, nil)
			c := transfer(r)
			r.put(between)
			done, err := r.Commit(t.Context(), c)
			if err != nil || done.Replayed != (name == "LostReply") || len(done.Results) != 3 {
				t.Fatalf("%+v, %v", done, err)
			}
			first, last := done.Results[0].Row, done.Results[2].Object
			if first.Mark != c.Writes[0].Row.Token || first.Lease != "wallets:4,2" || string(first.JSON) != `{"balance":90}` {
				t.Errorf("the first: %+v %s", first, first.JSON)
			}
			if !last.Created || last.Size != 4 || last.SHA256 == "" || last.Mark != c.Writes[2].Object.Token {
				t.Errorf("the last: %+v", last)
			}
			if _, text, err := r.read(client.ObjectRead{Object: object("r/1.csv")}); err != nil || text != "a,b\n" {
				t.Errorf("the receipt is %q, %v", text, err)
			}
		})
	}
}

// An answer that is too long is one all the same: the commit was accepted.
func TestCommitWithALongAnswer(t *testing.T) {
	r := serve(t, func(c *client.Config) { c.MaxAnswer = 400 })
	from, a := r.row("42")
	done, err := r.Commit(t.Context(), fence.Commit{Writes: []fence.CommitWrite{patchOf(from, a, `{"balance":"`+strings.Repeat("9", 400)+`"}`)}})
	if err != nil || len(done.Results) != 1 || done.Results[0].Row.Mark != a {
		t.Errorf("%+v, %v", done, err)
	}
}

func TestCommitIsRefused(t *testing.T) {
	r := serve(t, nil)
	c := transfer(r)
	c.Writes[1].Row.Token -= 2
	_, err := r.Commit(t.Context(), c)
	e := wantCode(t, err, fence.CodeStaleToken)
	if e.Write != 2 || e.State == nil || e.State.Mark != 2000 || e.State.Resource != "rows/public.wallets/43" && e.State.Resource != "rows/wallets/43" {
		t.Errorf("%+v, %+v", e, e.State)
	}
	if row, err := r.GetRow(t.Context(), client.RowName("wallets", "4,2")); err != nil || string(row.JSON) != `{"balance":100}` {
		t.Errorf("the other row is %s, %v", row.JSON, err)
	}
}

// A refusal that comes after a reply was lost settles the outcome only as far as it can tell.
func TestCommitOfUnknownOutcome(t *testing.T) {
	for _, c := range []struct {
		name   string
		refuse func(http.ResponseWriter, *http.Request, int, http.Handler)
		want   fence.Code
	}{
		{"NotSettled", refusing(9, 412, fence.CodePreconditionFailed), fence.CodeOutcomeUnknown},
		{"Settled", answering(9, 412, "application/problem+json", `{"code":"precondition-failed","detail":"said the test","write":1,"mark":1999,"resource":"rows/public.wallets/43"}`), fence.CodePreconditionFailed},
		{"MarkHasPassed", answering(9, 412, "application/problem+json", `{"code":"stale-token","detail":"said the test","write":0,"mark":1999,"resource":"rows/public.wallets/42"}`), fence.CodeOutcomeUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := serve(t, nil)
			commit := transfer(r)
			r.put(func(w http.ResponseWriter, req *http.Request, n int, next http.Handler) {
				if n == 1 {
					hang()
				}
				c.refuse(w, req, 1, next)
			})
			_, err := r.Commit(t.Context(), commit)
			wantCode(t, err, c.want)
		})
	}
}

func TestInsertRow(t *testing.T) {
	r := serve(t, nil)
	h := r.acquire("payments")
	r.put(losing(1))
	row, err := r.InsertRow(t.Context(), "payments", h.First(), map[string]any{"amount": 1})
	if err != nil || !row.Created || !row.Replayed || !slices.Equal(row.Made, []string{"1"}) || string(row.JSON) != `{"amount":1}` || row.Mark != h.First() {
		t.Errorf("%+v %s, %v", row, row.JSON, err)
	}
	row, err = r.InsertRow(t.Context(), "payments", h.First()+1, map[string]any{"amount": 2})
	if err != nil || row.Replayed || !slices.Equal(row.Made, []string{"2"}) {
		t.Errorf("%+v, %v", row, err)
	}
	_, err = r.InsertRow(t.Context(), "payments", h.First(), map[string]any{"amount": 3})
	wantCode(t, err, fence.CodeStaleToken)
	_, err = r.InsertRow(t.Context(), "", h.First(), map[string]any{"amount": 3})
	wantCode(t, err, fence.CodeInvalidRequest)
	_, err = r.WriteObject(t.Context(), fence.ObjectWrite{Op: fence.OpInsert, Object: object("a"), Access: fence.Access{Token: h.First()}})
	wantCode(t, err, fence.CodeInvalidRequest)
}
