package stores_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores"
)

// partLedger keeps what is stored in parts, too.
type partLedger struct {
	*ledger
	kept map[string]fence.PartUpload
}

func (l partLedger) KeepParts(_ context.Context, u fence.PartUpload) error {
	l.kept[u.ID] = u
	return nil
}

func (l partLedger) JoiningParts(_ context.Context, blob fence.Blob) error {
	u := l.kept[blob.ID]
	u.Size, u.ETag = blob.Size, blob.ETag
	l.kept[blob.ID] = u
	return nil
}

func (l partLedger) UseParts(_ context.Context, id, principal string, name fence.ObjectName) (fence.PartUpload, error) {
	u, found := l.kept[id]
	if state := l.ledger.blobs[id]; !found || u.Principal != principal || u.Object != name || state.state == "aborted" {
		return u, fence.Errorf(fence.CodeUploadExpired, "there is no such upload")
	}
	u.Published = l.state(id) != "pending"
	return u, nil
}

// assembler takes bodies in parts.
type assembler struct {
	*memory
	parts   map[int][]byte
	dropped int
	gone    bool // they were joined, and are parts no more
	unseen  bool // what was joined is not found
}

func partOf(number int, body []byte) fence.ObjectPart {
	sum := md5.Sum(body)
	return fence.ObjectPart{Number: number, Size: int64(len(body)), ETag: hex.EncodeToString(sum[:])}
}

func (a *assembler) BeginParts(context.Context, string, string) (string, error) { return "upload", nil }

func (a *assembler) PutPart(_ context.Context, _, _, _ string, number int, body io.Reader, _ int64) (fence.ObjectPart, error) {
	p, err := io.ReadAll(body)
	if err == nil {
		a.parts[number] = p
	}
	return partOf(number, p), err
}

// Parts has pages of two.
func (a *assembler) Parts(_ context.Context, _, _, _ string, after, _ int) (list []fence.ObjectPart, more bool, err error) {
	if a.gone {
		return nil, false, stores.ErrMissing
	}
	for number := after + 1; number < 100; number++ {
		if body, there := a.parts[number]; there {
			if len(list) == 2 {
				return list, true, nil
			}
			list = append(list, partOf(number, body))
		}
	}
	return list, false, nil
}

func (a *assembler) JoinParts(_ context.Context, _, id, _ string, parts []fence.ObjectPart) error {
	var b bytes.Buffer
	size := int64(0)
	for _, p := range parts {
		b.Write(a.parts[p.Number])
		size += p.Size
	}
	if a.unseen {
		return fence.Wrap(fence.CodeStoreUnavailable, stores.ErrMissing, "check what is stored")
	}
	if a.bodies[id] == nil {
		a.bodies[id] = b.Bytes()
	}
	if size != int64(len(a.bodies[id])) {
		return errors.New("another length")
	}
	return nil
}

func (a *assembler) DropParts(context.Context, string, string, string) error {
	a.dropped++
	return nil
}

func TestParts(t *testing.T) {
	l, a := partLedger{newLedger(), map[string]fence.PartUpload{}}, &assembler{memory: newMemory(), parts: map[int][]byte{}}
	o, err := stores.NewObjects(l, a, stores.ObjectsConfig{MaxSize: 100})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	begin := func(token fence.Token) fence.PartUpload {
		t.Helper()
		u, err := o.BeginParts(ctx, fence.ObjectWrite{Object: report, Access: fence.Access{Principal: "worker", Token: token}, Header: fence.ObjectHeader{ContentType: "text/csv"}})
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	use := func(u fence.PartUpload) fence.PartUpload {
		t.Helper()
		u, err := o.UseParts(ctx, u.ID, "worker", report)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	_, err = o.BeginParts(ctx, fence.ObjectWrite{Object: report, Access: fence.Access{Principal: "worker", Token: 1}})
	if fence.CodeOf(err) != fence.CodeStaleToken {
		t.Errorf("begun with a token that is too old: %v", err)
	}
	u := begin(1000)
	var parts []fence.ObjectPart
	for _, number := range []int{7, 2, 5} {
		p, err := o.PutPart(ctx, u, number, strings.NewReader(strings.Repeat(string(rune('a'+number)), 10)), 10)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, p)
	}
	for number, body := range map[int]string{0: "x", 10_001: "x", 3: "longer than said"} {
		if _, err := o.PutPart(ctx, u, number, strings.NewReader(body), 1); fence.CodeOf(err) != fence.CodeInvalidRequest {
			t.Errorf("part %d: %v", number, err)
		}
	}
	if _, err := o.PutPart(ctx, u, 3, strings.NewReader(""), 101); fence.CodeOf(err) != fence.CodeTooLarge {
		t.Error(err)
	}
	delete(a.parts, 3)
	join := func(u fence.PartUpload, parts ...fence.ObjectPart) (fence.Object, error) {
		return o.JoinParts(ctx, u, fence.ObjectWrite{Access: fence.Access{Principal: "worker"}}, parts)
	}
	wrong := parts[1]
	wrong.ETag = parts[0].ETag
	for name, list := range map[string][]fence.ObjectPart{"none": nil, "disordered": {parts[0], parts[1]}, "twice": {parts[1], parts[1]}, "wrong": {wrong}, "absent": {{Number: 3, ETag: parts[0].ETag}}} {
		if _, err := join(use(u), list...); fence.CodeOf(err) != fence.CodeInvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	named := []fence.ObjectPart{parts[1], parts[2], parts[0]}
	for i := range 2 {
		obj, err := join(use(u), named...)
		if err != nil || obj.Blob != u.ID || obj.Size != 30 || obj.Replayed != (i == 1) {
			t.Fatalf("%+v, %v", obj, err)
		}
	}
	if got := content(t, o); got != strings.Repeat("c", 10)+strings.Repeat("f", 10)+strings.Repeat("h", 10) {
		t.Errorf("%q", got)
	}
	if _, err := o.PutPart(ctx, use(u), 1, strings.NewReader("x"), 1); fence.CodeOf(err) != fence.CodeUploadExpired {
		t.Errorf("a part of what is complete: %v", err)
	}
	if err := o.AbortParts(ctx, use(u)); fence.CodeOf(err) != fence.CodeUploadExpired {
		t.Errorf("given up after it was complete: %v", err)
	}
	if _, _, err := o.Parts(ctx, use(u), 0, 10); fence.CodeOf(err) != fence.CodeUploadExpired {
		t.Errorf("parts of what is complete: %v", err)
	}
	withToken := func(token fence.Token) error {
		_, err := o.JoinParts(ctx, use(u), fence.ObjectWrite{Access: fence.Access{Principal: "worker", Token: token}}, named)
		return err
	}
	if err := withToken(1001); fence.CodeOf(err) != fence.CodeUploadExpired {
		t.Errorf("joined again with a token that is higher: %v", err)
	}
	mustWrite(t, o, put(1001, "another"))
	if _, err := join(use(u), named...); fence.CodeOf(err) != fence.CodeStaleToken {
		t.Errorf("joined again after another write: %v", err)
	}
	if err := withToken(1001); fence.CodeOf(err) != fence.CodeSpentToken {
		t.Errorf("joined again with the token of another write: %v", err)
	}
	next := begin(1002)
	if err := o.AbortParts(ctx, use(next)); err != nil || a.dropped != 1 || l.state(next.ID) != "aborted" {
		t.Error(err, a.dropped, l.state(next.ID))
	}
	late := begin(1003)
	mustWrite(t, o, put(1004, "newer"))
	a.parts = map[int][]byte{1: []byte("late")}
	if _, err := join(use(late)); fence.CodeOf(err) != fence.CodeStaleToken {
		t.Errorf("a token that has passed, and no parts: %v", err)
	}
	if _, err := join(use(late), partOf(1, a.parts[1])); fence.CodeOf(err) != fence.CodeStaleToken || content(t, o) != "newer" {
		t.Errorf("%v, %q", err, content(t, o))
	}
	if !slices.Contains(l.intents("pending"), late.ID) {
		t.Error("what was refused is published or lost")
	}

	// The parts are joined, and the gateway is killed before the pointer is flipped.
	again := begin(1005)
	a.parts = map[int][]byte{1: []byte("one"), 4: []byte("four")}
	list := []fence.ObjectPart{partOf(1, a.parts[1]), partOf(4, a.parts[4])}
	l.failFlip = errors.New("killed")
	if _, err := join(use(again), list...); err == nil {
		t.Fatal("joined")
	}
	a.gone, l.failFlip = true, nil
	delete(l.objects, report)
	l.marks[report], l.ledger.blobs[again.ID].state = fence.Mark{Token: 1004}, "pending"
	if _, err := join(use(again), list[0]); !errors.Is(err, stores.ErrMissing) || fence.CodeOf(err) != fence.CodeUploadExpired {
		t.Errorf("other parts: %v", err)
	}
	if obj, err := join(use(again), list...); err != nil || obj.Size != 7 || content(t, o) != "onefour" {
		t.Errorf("%+v, %v", obj, err)
	}
}

// A completion is repeated while the first is under way, or before it has flipped: it finds the parts gone.
func TestPartsAreJoinedTwiceAtOnce(t *testing.T) {
	l, a := partLedger{newLedger(), map[string]fence.PartUpload{}}, &assembler{memory: newMemory(), parts: map[int][]byte{}}
	o, err := stores.NewObjects(l, a, stores.ObjectsConfig{MaxSize: 100})
	if err != nil {
		t.Fatal(err)
	}
	ctx, w := t.Context(), fence.ObjectWrite{Access: fence.Access{Principal: "worker"}}
	begin := func(token fence.Token) (fence.PartUpload, []fence.ObjectPart) {
		a.parts, a.gone = map[int][]byte{}, false
		u, err := o.BeginParts(ctx, fence.ObjectWrite{Object: report, Access: fence.Access{Principal: "worker", Token: token}})
		if err != nil {
			t.Fatal(err)
		}
		p, err := o.PutPart(ctx, u, 1, strings.NewReader("0123456789"), 10)
		if err != nil {
			t.Fatal(err)
		}
		return u, []fence.ObjectPart{p}
	}
	u, parts := begin(1000)
	if _, err := o.JoinParts(ctx, u, w, parts); err != nil {
		t.Fatal(err)
	}
	a.gone = true
	if obj, err := o.JoinParts(ctx, u, w, parts); err != nil || !obj.Replayed {
		t.Errorf("after the flip: %+v, %v", obj, err)
	}

	u, parts = begin(1001)
	if err := l.JoiningParts(ctx, fence.Blob{ID: u.ID, Size: 10, ETag: joinedTagOf(parts)}); err != nil {
		t.Fatal(err)
	}
	if err := a.JoinParts(ctx, report.Bucket, u.ID, u.Upload, parts); err != nil {
		t.Fatal(err)
	}
	a.gone = true
	if obj, err := o.JoinParts(ctx, u, w, parts); err != nil || obj.Blob != u.ID {
		t.Errorf("before the flip: %+v, %v", obj, err)
	}

	// Nothing is gone for good when the store has not what it has just joined.
	u, parts = begin(1002)
	a.unseen = true
	if _, err := o.JoinParts(ctx, u, w, parts); fence.CodeOf(err) != fence.CodeStoreUnavailable {
		t.Errorf("not there yet: %v", err)
	}
}

func joinedTagOf(parts []fence.ObjectPart) string {
	var sums []byte
	for _, p := range parts {
		sum, _ := hex.DecodeString(p.ETag)
		sums = append(sums, sum...)
	}
	all := md5.Sum(sums)
	return hex.EncodeToString(all[:]) + "-" + strconv.Itoa(len(parts))
}
