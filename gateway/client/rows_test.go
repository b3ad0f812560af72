package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway/client"
	"github.com/fencegate/fencegate/lease"
)

func TestRows(t *testing.T) {
	r := serve(t, nil)
	ctx := t.Context()
	name, h := client.RowName("wallets", "42"), r.acquire("wallets:42")
	_, err := r.GetRow(ctx, name)
	if e := wantCode(t, err, fence.CodeNotFound); e.State == nil || e.State.Lease != "wallets:42" || e.State.Mark != 0 {
		t.Errorf("a row that is not there: %+v", e)
	}
	row, err := r.PutRow(ctx, name, h.First(), json.RawMessage(`{"balance":12345678901234567890.10,"owner":"ann"}`))
	if err != nil || !row.Created || row.Replayed || row.Mark != 1000 || row.Lease != "wallets:42" {
		t.Fatalf("put %+v, %v", row, err)
	}
	row, err = r.PatchRow(ctx, name, h.First()+1, map[string]string{"owner": "bob"})
	if err != nil || row.Created || row.Mark != 1001 {
		t.Fatalf("patched %+v, %v", row, err)
	}
	if row, err = r.GetRow(ctx, name); err != nil {
		t.Fatal(err)
	}
	var columns map[string]any
	if err := client.DecodeRow(row, &columns); err != nil || columns["balance"] != json.Number("12345678901234567890.10") || columns["owner"] != "bob" {
		t.Errorf("decoded %v, %v", columns, err)
	}
	if s, err := r.RowMark(ctx, name); err != nil || s.Mark != 1001 || s.Resource != "rows/public.wallets/42" || s.MarkedBy != "anonymous" || s.WrittenAt.IsZero() {
		t.Errorf("mark %+v, %v", s, err)
	}
	_, err = r.PatchRow(ctx, name, 1, map[string]int{"balance": 1})
	if e := wantCode(t, err, fence.CodeStaleToken); e.State == nil || e.State.Mark != 1001 || e.First != 1000 || e.Token != 1 || e.Lease != "wallets:42" || e.State.Resource != "rows/public.wallets/42" {
		t.Errorf("stale: %+v", e)
	}
	if _, err := r.ReadRow(ctx, fence.RowRead{Row: name, Access: fence.Access{Token: 1}}); fence.CodeOf(err) != fence.CodeStaleToken {
		t.Errorf("a read with a stale token: %v", err)
	}
	_, err = r.WriteRow(ctx, fence.RowWrite{Op: fence.OpPatch, Row: name, Access: fence.Access{Token: 1002}, If: fence.Condition{Match: []fence.Token{7, 8}}, Body: []byte(`{"a":1}`)})
	wantCode(t, err, fence.CodePreconditionFailed)
	if row, err = r.DeleteRow(ctx, name, 1003); err != nil || row.JSON != nil || row.Mark != 1003 {
		t.Errorf("deleted %+v, %v", row, err)
	}
}

func TestRowNames(t *testing.T) {
	r := serve(t, nil)
	for _, key := range [][]string{{"a/b"}, {"a,b", "c"}, {"."}, {".."}, {"%2F"}, {"ü +?#&"}, {"a", ""}} {
		name := client.RowName("wallets", key...)
		h := r.acquire("wallets:" + strings.Join(key, ","))
		if _, err := r.PutRow(t.Context(), name, h.First(), map[string]int{"a": 1}); err != nil {
			t.Errorf("%q: %v", key, err)
		}
		s, err := r.RowMark(t.Context(), name)
		if err != nil || s.Mark != h.First() || s.Resource != "rows/public.wallets/"+strings.Join(key, ",") {
			t.Errorf("%q: %+v, %v", key, s, err)
		}
		_ = r.Release(t.Context(), ref(h))
	}
	if s, err := r.RowMark(t.Context(), client.RowName(`"a.b"."Reply/x"`, "1")); err != nil || s.Resource != `rows/"a.b"."Reply/x"/1` {
		t.Errorf("quoted: %+v, %v", s, err)
	}
	for _, bad := range []fence.RowName{{}, {Table: "t"}, {Key: []string{"1"}}} {
		_, err := r.GetRow(t.Context(), bad)
		wantCode(t, err, fence.CodeInvalidRequest)
	}
}

func TestConditions(t *testing.T) {
	r := serve(t, nil)
	for _, c := range []struct {
		name        string
		If          fence.Condition
		match, none string
		code        fence.Code
	}{
		{"None", fence.Condition{}, "", "", fence.CodeAccepted},
		{"Match", fence.Condition{Match: []fence.Token{0, 1000}}, `"0", "1000"`, "", fence.CodeAccepted},
		{"MatchNothing", fence.Condition{Match: []fence.Token{}}, `""`, "", fence.CodeAccepted},
		{"Exists", fence.Condition{Exists: true}, "*", "", fence.CodeAccepted},
		{"Absent", fence.Condition{Absent: true}, "", "*", fence.CodeAccepted},
		{"NoneMatch", fence.Condition{NoneMatch: []fence.Token{5}}, "", `"5"`, fence.CodeAccepted},
		{"Both", fence.Condition{Exists: true, Match: []fence.Token{5}}, "", "", fence.CodeInvalidRequest},
		{"BothAbsent", fence.Condition{Absent: true, NoneMatch: []fence.Token{5}}, "", "", fence.CodeInvalidRequest},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.put(func(w http.ResponseWriter, req *http.Request, _ int, _ http.Handler) {
				if got := req.Header.Get("If-Match"); got != c.match {
					t.Errorf("If-Match: %s", got)
				}
				if got := req.Header.Get("If-None-Match"); got != c.none {
					t.Errorf("If-None-Match: %s", got)
				}
				w.Header().Set("X-Fence-Token", "7")
				w.WriteHeader(204)
			})
			_, err := r.WriteRow(t.Context(), fence.RowWrite{Op: fence.OpDelete, Row: client.RowName("t", "1"), Access: fence.Access{Token: 7}, If: c.If})
			if fence.CodeOf(err) != c.code {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestLostRepliesOfRows(t *testing.T) {
	r := serve(t, nil)
	name, token := r.row("42")
	ctx := t.Context()
	patch := func() (fence.Row, error) { return r.PatchRow(ctx, name, token, map[string]int{"balance": 90}) }

	r.put(losing(2))
	row, err := patch()
	if err != nil || !row.Replayed || row.Mark != token || r.asked() != 3 {
		t.Errorf("settled as %+v, %v, with %d requests", row, err, r.asked())
	}
	token++
	r.put(dropping(2))
	if row, err = patch(); err != nil || row.Replayed {
		t.Errorf("what never arrived: %+v, %v", row, err)
	}
	token++
	r.put(losing(5))
	_, err = patch()
	if e := wantCode(t, err, fence.CodeOutcomeUnknown); e.Token != token || r.asked() != 5 {
		t.Errorf("%+v after %d requests", e, r.asked())
	}
	// The outcome can be settled later.
	if row, err = patch(); err != nil || !row.Replayed {
		t.Errorf("settled as %+v, %v", row, err)
	}
	// Half an answer is none.
	token++
	r.put(func(w http.ResponseWriter, req *http.Request, n int, next http.Handler) {
		if n > 1 {
			next.ServeHTTP(w, req)
			return
		}
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, req)
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		_, _ = w.Write(rec.Body.Bytes()[:5])
		_ = http.NewResponseController(w).Flush()
		hang()
	})
	if row, err = patch(); err != nil || !row.Replayed {
		t.Errorf("half an answer: %+v, %v", row, err)
	}
}

// A refusal that follows a try without an answer tells about that try only when the mark does.
func TestRefusedBehindAnUnknownOutcome(t *testing.T) {
	r := serve(t, nil)
	name, token := r.row("42")
	patch := func() error {
		_, err := r.PatchRow(t.Context(), name, token, map[string]int{"balance": 90})
		return err
	}
	first := func(then func()) {
		r.put(func(w http.ResponseWriter, req *http.Request, n int, next http.Handler) {
			if n == 1 {
				then()
				_, _ = io.Copy(io.Discard, req.Body)
				hang()
			}
			next.ServeHTTP(w, req)
		})
	}
	t.Run("TheMarkHasPassed", func(t *testing.T) {
		first(func() {
			w := fence.RowWrite{Op: fence.OpPatch, Row: fence.RowName{Table: "public.wallets", Key: []string{"42"}}, Access: fence.Access{Principal: "anonymous", Token: token + 5}, Body: []byte(`{"balance":1}`)}
			if _, err := r.memory.WriteRow(t.Context(), w); err != nil {
				t.Error(err)
			}
		})
		err := patch()
		wantCode(t, err, fence.CodeOutcomeUnknown)
		var refusal *fence.Error
		if !errors.As(errors.Unwrap(err), &refusal) || refusal.Code != fence.CodeStaleToken {
			t.Errorf("got %v", err)
		}
	})
	t.Run("TheMarkIsBelow", func(t *testing.T) {
		token = token + 10
		first(func() { _ = r.memory.Break(context.Background(), "wallets:42", "root", "stuck") })
		wantCode(t, patch(), fence.CodeGrantEnded)
	})
	t.Run("ItMayComeYet", func(t *testing.T) {
		name, token := r.row("43")
		r.put(func(w http.ResponseWriter, req *http.Request, n int, next http.Handler) {
			if n == 1 {
				_, _ = io.Copy(io.Discard, req.Body)
				hang()
			}
			// Told with the mark as it stands: what was cut off waits for the same lock, say.
			body := fmt.Sprintf(`{"code":"contention","detail":"said the test","resource":"rows/public.wallets/43","mark":%d,"token":%d}`, token-1, token)
			answering(n, http.StatusServiceUnavailable, "application/problem+json", body)(w, req, n, next)
		})
		_, err := r.PatchRow(t.Context(), name, token, map[string]int{"balance": 90})
		wantCode(t, err, fence.CodeOutcomeUnknown)
	})
	t.Run("NobodyLooked", func(t *testing.T) {
		r.put(func(w http.ResponseWriter, req *http.Request, n int, next http.Handler) {
			if n == 1 {
				hang()
			}
			refusing(2, 403, fence.CodeForbidden)(w, req, n, next)
		})
		wantCode(t, patch(), fence.CodeOutcomeUnknown)
	})
}

func TestRepetition(t *testing.T) {
	r := serve(t, nil)
	name, token := r.row("42")
	patch := func(ctx context.Context) error {
		_, err := r.PatchRow(ctx, name, token, map[string]int{"balance": 90})
		token++
		return err
	}
	for _, code := range []fence.Code{fence.CodeContention, fence.CodeOverloaded, fence.CodeUnavailable, fence.CodeOutcomeUnknown} {
		t.Run(string(code), func(t *testing.T) {
			r.put(refusing(4, 503, code))
			if err := patch(t.Context()); err != nil || r.asked() != 5 {
				t.Errorf("%v after %d requests", err, r.asked())
			}
			r.put(refusing(9, 503, code))
			if err := patch(t.Context()); fence.CodeOf(err) != code || r.asked() != 5 {
				t.Errorf("%v after %d requests", err, r.asked())
			}
		})
	}
	t.Run("TheStoreIsAway", func(t *testing.T) {
		r.put(refusing(9, 502, fence.CodeUnavailable))
		if err := patch(t.Context()); fence.CodeOf(err) != fence.CodeStoreUnavailable || r.asked() != 5 {
			t.Errorf("%v after %d requests", err, r.asked())
		}
	})
	for _, code := range []fence.Code{
		fence.CodeStaleToken, fence.CodeSpentToken, fence.CodeGrantEnded, fence.CodeForbidden, fence.CodeInternal, fence.CodeRateLimited,
		fence.CodeLeaseHeld, fence.CodeConstraintViolation, fence.CodeTooLarge, "of-the-future",
	} {
		t.Run(string(code), func(t *testing.T) {
			r.put(refusing(9, 409, code))
			if err := patch(t.Context()); fence.CodeOf(err) != code || r.asked() != 1 {
				t.Errorf("%v after %d requests", err, r.asked())
			}
		})
	}
	t.Run("APauseThatIsTooLong", func(t *testing.T) {
		r.put(refusing(9, 503, fence.CodeOverloaded, "Retry-After", "1"))
		if e := wantCode(t, patch(t.Context()), fence.CodeOverloaded); e.Remaining != time.Second || r.asked() != 1 {
			t.Errorf("%+v after %d requests", e, r.asked())
		}
	})
	t.Run("ThePauseIsKept", func(t *testing.T) {
		patient := r.client(func(c *client.Config) { c.MaxPause = 3 * time.Second })
		r.put(refusing(1, 503, fence.CodeOverloaded, "Retry-After", "1"))
		began := time.Now()
		if _, err := patient.GetRow(t.Context(), name); err != nil || time.Since(began) < time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
	t.Run("NoTimeForAnother", func(t *testing.T) {
		patient := r.client(func(c *client.Config) { c.MinPause, c.MaxPause = time.Second, 3*time.Second })
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		defer cancel()
		r.put(refusing(9, 503, fence.CodeContention))
		began := time.Now()
		_, err := patient.GetRow(ctx, name)
		if wantCode(t, err, fence.CodeContention); time.Since(began) > 300*time.Millisecond {
			t.Errorf("it waited %v in vain", time.Since(began))
		}
	})
	t.Run("Cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r.put(func(_ http.ResponseWriter, req *http.Request, _ int, _ http.Handler) {
			_, _ = io.Copy(io.Discard, req.Body)
			cancel()
			<-req.Context().Done()
			hang()
		})
		err := patch(ctx)
		if wantCode(t, err, fence.CodeOutcomeUnknown); !errors.Is(err, context.Canceled) || r.asked() != 1 {
			t.Errorf("%v after %d requests", err, r.asked())
		}
	})
	t.Run("TheGatewayHangs", func(t *testing.T) {
		hasty := r.client(func(c *client.Config) { c.Timeout = 20 * time.Millisecond })
		r.put(func(_ http.ResponseWriter, req *http.Request, _ int, _ http.Handler) {
			_, _ = io.Copy(io.Discard, req.Body)
			<-req.Context().Done()
			hang()
		})
		_, err := hasty.PatchRow(t.Context(), name, token, map[string]int{"balance": 1})
		if wantCode(t, err, fence.CodeOutcomeUnknown); !errors.Is(err, context.DeadlineExceeded) || r.asked() != 5 {
			t.Errorf("%v after %d requests", err, r.asked())
		}
		_, err = hasty.GetRow(t.Context(), name)
		wantCode(t, err, fence.CodeUnavailable)
	})
	t.Run("NobodyListens", func(t *testing.T) {
		lost := r.client(func(c *client.Config) { c.URL = "http://127.0.0.1:1" })
		_, err := lost.PatchRow(t.Context(), name, token, map[string]int{"balance": 1})
		wantCode(t, err, fence.CodeUnavailable)
		_, err = lost.Acquire(t.Context(), lease.Request{Name: "job"})
		wantCode(t, err, fence.CodeUnavailable)
	})
}

func TestAnswersOfOthers(t *testing.T) {
	r := serve(t, nil)
	name, token := r.row("42")
	for _, c := range []struct {
		name                string
		status              int
		kind, body          string
		read, write, verify fence.Code
	}{
		{"APage", 200, "text/html", "<html>", fence.CodeUnavailable, fence.CodeOutcomeUnknown, fence.CodeUnavailable},
		{"ARowWithoutAMark", 200, "application/json", "{}", fence.CodeUnavailable, fence.CodeOutcomeUnknown, fence.CodeUnavailable},
		{"ARedirect", 302, "text/html", "", fence.CodeInternal, fence.CodeInternal, fence.CodeInternal},
		{"AProxyThatFailed", 502, "text/html", "<html>", fence.CodeUnavailable, fence.CodeOutcomeUnknown, fence.CodeUnavailable},
		{"AProxyThatGaveUp", 504, "text/html", "<html>", fence.CodeUnavailable, fence.CodeOutcomeUnknown, fence.CodeUnavailable},
		{"AProxyThatForbids", 403, "text/html", "<html>", fence.CodeForbidden, fence.CodeForbidden, fence.CodeForbidden},
		{"AProxysLimit", 413, "text/html", "<html>", fence.CodeTooLarge, fence.CodeTooLarge, fence.CodeTooLarge},
		{"NoPlaceOfOurs", 404, "text/plain", "not here", fence.CodeInternal, fence.CodeInternal, fence.CodeInternal},
		{"AProblemOfOthers", 500, "application/problem+json", `{"title":"x"}`, fence.CodeUnavailable, fence.CodeOutcomeUnknown, fence.CodeUnavailable},
		{"AProblemCutOff", 409, "application/problem+json", `{"code":"lea`, fence.CodeInternal, fence.CodeInternal, fence.CodeInternal},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.put(answering(99, c.status, c.kind, c.body, "Location", "/elsewhere"))
			_, err := r.GetRow(t.Context(), name)
			if fence.CodeOf(err) != c.read {
				t.Errorf("a read: %v", err)
			}
			_, err = r.PatchRow(t.Context(), name, token, map[string]int{"a": 1})
			if fence.CodeOf(err) != c.write {
				t.Errorf("a write: %v", err)
			}
			if err := r.Verify(t.Context(), "job", "", 1000); fence.CodeOf(err) != c.verify {
				t.Errorf("a verification: %v", err)
			}
		})
	}
}

func TestLongAnswers(t *testing.T) {
	r := serve(t, func(c *client.Config) { c.MaxAnswer = 1000 })
	name, token := r.row("42")
	row, err := r.PatchRow(t.Context(), name, token, map[string]string{"note": strings.Repeat("x", 2000)})
	if err != nil || row.JSON != nil || row.Mark != token {
		t.Errorf("a write whose answer is too long: %+v, %v", row, err)
	}
	r.put(losing(0))
	_, err = r.GetRow(t.Context(), name)
	if wantCode(t, err, fence.CodeTooLarge); r.asked() != 1 {
		t.Errorf("%d requests", r.asked())
	}
	r.put(answering(9, 409, "application/problem+json", `{"code":"stale-token","detail":"`+strings.Repeat("x", 1<<20)+`"}`))
	_, err = r.GetRow(t.Context(), name)
	wantCode(t, err, fence.CodeInternal)
}
