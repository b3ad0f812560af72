package stores_test

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores"
)

var report = fence.ObjectName{Bucket: "reports", Key: "a.csv"}

// put is a write of a body of known size.
func put(token fence.Token, body string) fence.ObjectWrite {
	return fence.ObjectWrite{
		Op: fence.OpPut, Object: report, Access: fence.Access{Principal: "worker", Token: token},
		Body: strings.NewReader(body), Size: int64(len(body)),
	}
}

func objects(t *testing.T, l *ledger, m *memory, cfg stores.ObjectsConfig) *stores.Objects {
	t.Helper()
	o, err := stores.NewObjects(l, m, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func mustWrite(t *testing.T, o *stores.Objects, w fence.ObjectWrite) fence.Object {
	t.Helper()
	obj, err := o.WriteObject(t.Context(), w)
	if err != nil {
		t.Fatalf("write: %v", err)
	}
	return obj
}

func content(t *testing.T, o *stores.Objects) string {
	t.Helper()
	obj, err := o.Object(t.Context(), report, fence.Access{})
	if fence.CodeOf(err) == fence.CodeNotFound {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := o.Open(t.Context(), obj, 0, obj.Size)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(p)
}

func TestPutPublishesWhatWasVerified(t *testing.T) {
	o := objects(t, newLedger(), newMemory(), stores.ObjectsConfig{})
	for i, body := range []string{"first", "", "third, of unknown size"} {
		w := put(fence.Token(1000+i), body)
		sum, old := sha256.Sum256([]byte(body)), md5.Sum([]byte(body))
		w.SHA256, w.MD5 = sum[:], old[:]
		if i == 2 {
			w.Size = -1
		}
		obj := mustWrite(t, o, w)
		if obj.Size != int64(len(body)) || obj.Created != (i == 0) {
			t.Errorf("put %q: %+v", body, obj)
		}
		if got := content(t, o); got != body {
			t.Errorf("content %q, want %q", got, body)
		}
	}
}

func TestNilBodyIsEmpty(t *testing.T) {
	w := put(1000, "")
	w.Body = nil
	if obj := mustWrite(t, objects(t, newLedger(), newMemory(), stores.ObjectsConfig{}), w); obj.Size != 0 {
		t.Errorf("size %d", obj.Size)
	}
}

func TestEarlyRefusalReadsNoByte(t *testing.T) {
	base := put(1001, "0123456789")
	for name, c := range map[string]struct {
		change func(*fence.ObjectWrite)
		want   fence.Code
	}{
		"StaleToken":      {func(w *fence.ObjectWrite) { w.Token = 999 }, fence.CodeStaleToken},
		"BelowTheMark":    {func(w *fence.ObjectWrite) { w.Token = 1000 }, fence.CodeStaleToken},
		"UnissuedToken":   {func(w *fence.ObjectWrite) { w.Token = fence.MaxToken }, fence.CodeUnissuedToken},
		"ForeignToken":    {func(w *fence.ObjectWrite) { w.Principal = "other" }, fence.CodeForeignToken},
		"TooLarge":        {func(w *fence.ObjectWrite) { w.Size = 11 }, fence.CodeTooLarge},
		"NegativeSize":    {func(w *fence.ObjectWrite) { w.Size = -2 }, fence.CodeInvalidRequest},
		"HalfASHA256":     {func(w *fence.ObjectWrite) { w.SHA256 = make([]byte, 16) }, fence.CodeInvalidRequest},
		"HalfAnMD5":       {func(w *fence.ObjectWrite) { w.MD5 = make([]byte, 8) }, fence.CodeInvalidRequest},
		"PatchOfAnObject": {func(w *fence.ObjectWrite) { w.Op = fence.OpPatch }, fence.CodeInvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			l.marks[report] = fence.Mark{Token: 1001, Principal: "worker"}
			o := objects(t, l, newMemory(), stores.ObjectsConfig{MaxSize: 10})
			w := base
			w.Token = 1002
			w.Body = reader(func([]byte) (int, error) { t.Error("the body was read"); return 0, io.EOF })
			c.change(&w)
			if _, err := o.WriteObject(t.Context(), w); fence.CodeOf(err) != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if len(l.blobs) != 0 {
				t.Error("an intent was recorded")
			}
		})
	}
}

// Each of these fails after the intent was recorded: nothing is published, and the intent is given up, also when the
// request's context has ended.
func TestFailureBeforeTheFlipPublishesNothing(t *testing.T) {
	gone := errors.New("connection reset by peer")
	full := errors.New("no space left on device")
	for name, c := range map[string]struct {
		change func(w *fence.ObjectWrite, m *memory, cancel context.CancelFunc)
		want   fence.Code
	}{
		"SHA256Mismatch": {func(w *fence.ObjectWrite, _ *memory, _ context.CancelFunc) { w.SHA256 = make([]byte, 32) }, fence.CodeChecksumMismatch},
		"MD5Mismatch":    {func(w *fence.ObjectWrite, _ *memory, _ context.CancelFunc) { w.MD5 = make([]byte, 16) }, fence.CodeChecksumMismatch},
		"Shorter":        {func(w *fence.ObjectWrite, _ *memory, _ context.CancelFunc) { w.Size++ }, fence.CodeInvalidRequest},
		"Longer":         {func(w *fence.ObjectWrite, _ *memory, _ context.CancelFunc) { w.Size-- }, fence.CodeInvalidRequest},
		"LongerThanAStoreReads": {func(w *fence.ObjectWrite, m *memory, _ context.CancelFunc) {
			w.Size--
			m.take = func(_ context.Context, body io.Reader) error { return readSome(body, w.Size) }
		}, fence.CodeInvalidRequest},
		"TooLarge": {func(w *fence.ObjectWrite, _ *memory, _ context.CancelFunc) {
			w.Size, w.Body = -1, strings.NewReader(strings.Repeat("x", 101))
		}, fence.CodeTooLarge},
		"ReaderError": {func(w *fence.ObjectWrite, _ *memory, _ context.CancelFunc) {
			w.Body = io.MultiReader(strings.NewReader("new"), reader(func([]byte) (int, error) { return 0, gone }))
		}, fence.CodeInvalidRequest},
		"ReaderErrorWithCode": {func(w *fence.ObjectWrite, _ *memory, _ context.CancelFunc) {
			w.Body = reader(func([]byte) (int, error) { return 0, fence.Errorf(fence.CodeChecksumMismatch, "bad chunk") })
		}, fence.CodeChecksumMismatch},
		"RequestEnded": {func(w *fence.ObjectWrite, _ *memory, cancel context.CancelFunc) {
			w.Body = io.MultiReader(strings.NewReader("n"), reader(func([]byte) (int, error) { cancel(); return 0, io.EOF }), strings.NewReader("ew"))
		}, fence.CodeInvalidRequest},
		"RequestEndedAfterItsBody": {func(_ *fence.ObjectWrite, m *memory, cancel context.CancelFunc) {
			m.take = func(ctx context.Context, body io.Reader) error {
				_, err := io.Copy(io.Discard, body)
				cancel()
				return errors.Join(err, ctx.Err())
			}
		}, fence.CodeStoreUnavailable},
		"StoreFailsBeforeReading": {func(_ *fence.ObjectWrite, m *memory, _ context.CancelFunc) {
			m.take = func(context.Context, io.Reader) error { return full }
		}, fence.CodeStoreUnavailable},
		"StoreFailsAfterReading": {func(_ *fence.ObjectWrite, m *memory, _ context.CancelFunc) {
			m.take = func(_ context.Context, body io.Reader) error { return errors.Join(readSome(body, 3), full) }
		}, fence.CodeStoreUnavailable},
		"StoreKnowsItsCode": {func(_ *fence.ObjectWrite, m *memory, _ context.CancelFunc) {
			m.take = func(context.Context, io.Reader) error { return fence.Errorf(fence.CodeTooLarge, "too many parts") }
		}, fence.CodeTooLarge},
		"StoreStopsEarly": {func(w *fence.ObjectWrite, m *memory, _ context.CancelFunc) {
			w.Size = -1
			m.take = func(_ context.Context, body io.Reader) error { return readSome(body, 1) }
		}, fence.CodeStoreUnavailable},
		"StoreTakesTooLong": {func(_ *fence.ObjectWrite, m *memory, _ context.CancelFunc) {
			m.take = func(ctx context.Context, _ io.Reader) error { <-ctx.Done(); return ctx.Err() }
		}, fence.CodeUploadExpired},
		"SenderTakesTooLong": {func(w *fence.ObjectWrite, _ *memory, _ context.CancelFunc) {
			w.Size, w.Body = -1, reader(func([]byte) (int, error) { return 0, nil })
		}, fence.CodeUploadExpired},
	} {
		t.Run(name, func(t *testing.T) {
			l, m := newLedger(), newMemory()
			cfg := stores.ObjectsConfig{MaxSize: 100}
			if strings.HasSuffix(name, "TooLong") {
				cfg.UploadLimit = 20 * time.Millisecond
			}
			o := objects(t, l, m, cfg)
			mustWrite(t, o, put(1000, "old"))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w := put(1001, "new")
			c.change(&w, m, cancel)
			if _, err := o.WriteObject(ctx, w); fence.CodeOf(err) != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
			if got := content(t, o); got != "old" {
				t.Errorf("content %q, want the old one", got)
			}
			if mark := l.marks[report].Token; mark != 1000 {
				t.Errorf("mark %d, want 1000", mark)
			}
			if got := l.state("blob-1"); got != "aborted" {
				t.Errorf("the intent is %s, want aborted", got)
			}
		})
	}
}

func TestRefusedFlipAbortsTheBlob(t *testing.T) {
	l := newLedger()
	o := objects(t, l, newMemory(), stores.ObjectsConfig{})
	mustWrite(t, o, put(1000, "old"))
	w := put(1001, "new")
	w.Body = io.MultiReader(w.Body, reader(func([]byte) (int, error) { l.seal(); return 0, io.EOF }))
	if _, err := o.WriteObject(t.Context(), w); fence.CodeOf(err) != fence.CodeStaleToken {
		t.Errorf("got %v, want a stale token", err)
	}
	if got := content(t, o); got != "old" {
		t.Errorf("content %q", got)
	}
	if got := l.state("blob-1"); got != "aborted" {
		t.Errorf("the intent is %s", got)
	}
}

func TestReplayAbortsItsOwnBlob(t *testing.T) {
	l := newLedger()
	o := objects(t, l, newMemory(), stores.ObjectsConfig{})
	first := mustWrite(t, o, put(1000, "body"))
	l.seal()
	again := mustWrite(t, o, put(1000, "body"))
	if !again.Replayed || again.Blob != first.Blob {
		t.Errorf("got %+v", again)
	}
	if l.state(first.Blob) != "committed" || l.state("blob-1") != "aborted" {
		t.Errorf("committed %q, aborted %q", l.intents("committed"), l.intents("aborted"))
	}
	if got := content(t, o); got != "body" {
		t.Errorf("content %q", got)
	}
}

func TestUnknownFlipKeepsTheBlob(t *testing.T) {
	l := newLedger()
	o := objects(t, l, newMemory(), stores.ObjectsConfig{})
	unknown := fence.Errorf(fence.CodeOutcomeUnknown, "no answer")
	l.failFlip = unknown
	if _, err := o.WriteObject(t.Context(), put(1000, "body")); err != error(unknown) {
		t.Errorf("got %v, want the ledger's error as it is", err)
	}
	if len(l.asked) != 0 {
		t.Errorf("the ledger was asked to give up %q", l.asked)
	}
	l.failFlip = nil
	// The same request settles it (I7).
	if obj := mustWrite(t, o, put(1000, "body")); !obj.Replayed {
		t.Errorf("got %+v, want a replay", obj)
	}
	if got := content(t, o); got != "body" {
		t.Errorf("content %q", got)
	}
}

func TestDeleteHidesTheObject(t *testing.T) {
	l := newLedger()
	o := objects(t, l, newMemory(), stores.ObjectsConfig{})
	mustWrite(t, o, put(1000, "body"))
	w := fence.ObjectWrite{Op: fence.OpDelete, Object: report, Access: fence.Access{Principal: "worker", Token: 1001}}
	if obj := mustWrite(t, o, w); obj.Mark != 1001 || obj.Blob != "" {
		t.Errorf("got %+v", obj)
	}
	if got := content(t, o); got != "" {
		t.Errorf("content %q", got)
	}
	if state, err := o.ObjectMark(t.Context(), report); err != nil || state.Mark != 1001 {
		t.Errorf("mark %+v, %v", state, err)
	}
}

func TestOpenReadsWhatTheObjectHas(t *testing.T) {
	o := objects(t, newLedger(), newMemory(), stores.ObjectsConfig{})
	obj := mustWrite(t, o, put(1000, "0123456789"))
	for _, c := range []struct {
		offset, length int64
		want           string
	}{{0, 10, "0123456789"}, {3, 4, "3456"}, {9, 1, "9"}, {10, 0, ""}, {0, 0, ""}} {
		r, err := o.Open(t.Context(), obj, c.offset, c.length)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || string(got) != c.want {
			t.Errorf("%d from %d: %q, %v", c.length, c.offset, got, err)
		}
		r.Close()
	}
	for _, c := range []struct{ offset, length int64 }{{0, 11}, {10, 1}, {11, 0}, {-1, 1}, {0, -1}, {1 << 62, 1 << 62}} {
		if _, err := o.Open(t.Context(), obj, c.offset, c.length); fence.CodeOf(err) != fence.CodeRangeNotSatisfiable {
			t.Errorf("%d from %d: %v", c.length, c.offset, err)
		}
	}
}

func TestDownloadThatEndsEarlyIsAnError(t *testing.T) {
	for name, c := range map[string]struct {
		cfg    stores.ObjectsConfig
		change func(*fence.Object)
	}{
		"CutShort":    {change: func(obj *fence.Object) { obj.Size = 11 }},
		"TookTooLong": {cfg: stores.ObjectsConfig{DownloadLimit: time.Nanosecond}, change: func(*fence.Object) {}},
	} {
		t.Run(name, func(t *testing.T) {
			o := objects(t, newLedger(), newMemory(), c.cfg)
			obj := mustWrite(t, o, put(1000, "0123456789"))
			c.change(&obj)
			r, err := o.Open(t.Context(), obj, 0, obj.Size)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if _, err := io.ReadAll(r); fence.CodeOf(err) != fence.CodeStoreUnavailable {
				t.Errorf("read: %v", err)
			}
		})
	}
}

func TestNegativeLimitIsRefused(t *testing.T) {
	for _, cfg := range []stores.ObjectsConfig{{MaxSize: -1}, {UploadLimit: -1}, {DownloadLimit: -1}} {
		if _, err := stores.NewObjects(newLedger(), newMemory(), cfg); err == nil {
			t.Errorf("%+v: no error", cfg)
		}
	}
}

type reader func(p []byte) (int, error)

func (f reader) Read(p []byte) (int, error) { return f(p) }

func readSome(r io.Reader, n int64) error {
	_, err := io.CopyN(io.Discard, r, n)
	return err
}
