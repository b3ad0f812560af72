package stores_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/stores"
)

// movingLedger knows objects of some keys.
type movingLedger struct {
	*ledger
	keys []string
}

func (l movingLedger) ListObjects(context.Context, fence.ObjectQuery) (fence.ObjectPage, error) {
	var page fence.ObjectPage
	for _, key := range l.keys {
		page.Entries = append(page.Entries, fence.ObjectEntry{Key: key})
	}
	return page, nil
}

func (l movingLedger) Bindings(context.Context, string) ([]fence.BucketBinding, error) {
	return []fence.BucketBinding{{Options: fence.BucketOptions{Existing: true}}}, nil
}

func (l movingLedger) KnownKeys(context.Context, string, []string) ([]string, error) { return nil, nil }

func (l movingLedger) Object(_ context.Context, name fence.ObjectName, _ fence.Access) (fence.Object, error) {
	return fence.Object{ObjectName: name}, nil
}

func (l movingLedger) ImportObject(context.Context, fence.ObjectName, fence.Blob, fence.ObjectHeader, time.Time) (bool, error) {
	return true, nil
}

// movingStore has natural objects of some keys.
type movingStore struct {
	*memory
	stores.Naturals // what is not faked
	keys            []string
	fail            func(key string) error // of Stat
	failProbe       error                  // of lists that ask for one object only

	mu    sync.Mutex // guards what follows
	asked int        // how many objects
}

func (s *movingStore) Stat(_ context.Context, _, key string) (stores.Natural, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return stores.Natural{Key: key}, s.fail(key)
}

func (s *movingStore) ListNatural(_ context.Context, q stores.NaturalQuery) (page stores.NaturalPage, err error) {
	if q.Limit == 1 {
		return page, s.failProbe
	}
	for _, key := range s.keys {
		page.Objects = append(page.Objects, stores.Natural{Key: key})
	}
	return page, nil
}

func (s *movingStore) Take(context.Context, string, stores.Natural, string) error { return nil }

func (s *movingStore) Give(context.Context, string, fence.Blob, string, fence.ObjectHeader) (stores.Natural, error) {
	return stores.Natural{}, nil
}

func TestMovesGoOnPastAnObject(t *testing.T) {
	var keys []string
	for i := range 100 {
		keys = append(keys, fmt.Sprintf("key-%02d", i))
	}
	refused := fence.Errorf(fence.CodeStoreUnavailable, "refused")
	stop := errors.New("stop")
	for name, c := range map[string]struct {
		fails     []string
		with      error
		failProbe error
		ends      fence.Code // "" is that it goes on
	}{
		"None":               {},
		"Refused":            {fails: []string{"key-03", "key-50"}, with: refused},
		"All":                {fails: keys, with: refused},
		"BadKey":             {fails: keys[:1], with: fence.Errorf(fence.CodeInvalidRequest, "bad")},
		"StoreDoesNotAnswer": {fails: keys, with: refused, failProbe: fence.Errorf(fence.CodeStoreUnavailable, "down"), ends: fence.CodeStoreUnavailable},
		"NoLedger":           {fails: keys, with: fence.Errorf(fence.CodeUnavailable, "down"), ends: fence.CodeUnavailable},
		"StoppedInTime":      {fails: keys, ends: fence.CodeInternal},
		"Stopped":            {fails: keys, with: stop, ends: fence.CodeInternal},
	} {
		for verb, move := range map[string]func(context.Context, *stores.Objects, movingLedger, stores.Move) (stores.Moved, error){
			"import": func(ctx context.Context, o *stores.Objects, l movingLedger, m stores.Move) (stores.Moved, error) {
				return o.Import(ctx, l, m)
			},
			"export": func(ctx context.Context, o *stores.Objects, _ movingLedger, m stores.Move) (stores.Moved, error) {
				return o.Export(ctx, m)
			},
		} {
			t.Run(name+"/"+verb, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				l, s := movingLedger{newLedger(), keys}, &movingStore{memory: newMemory(), keys: keys, failProbe: c.failProbe}
				s.fail = func(key string) error {
					if !slices.Contains(c.fails, key) {
						return nil
					}
					if c.ends == fence.CodeInternal {
						cancel()
					}
					return c.with
				}
				o, err := stores.NewObjects(l, s, stores.ObjectsConfig{})
				if err != nil {
					t.Fatal(err)
				}
				var told []string
				moved, err := move(ctx, o, l, stores.Move{Bucket: "b", Failed: func(key string, err error) {
					told = append(told, key)
					if !errors.Is(err, c.with) || !strings.HasPrefix(err.Error(), verb+" "+key+": ") {
						t.Errorf("%s: %v", key, err)
					}
				}})
				if c.ends != "" {
					if fence.CodeOf(err) != c.ends || !errors.Is(err, cmp.Or(c.failProbe, c.with, context.Canceled)) || len(told) > 0 || s.asked > 10 {
						t.Errorf("%+v, %v, %d told, %d asked", moved, err, len(told), s.asked)
					}
					return
				}
				slices.Sort(told)
				if want := (stores.Moved{Copied: 100 - len(c.fails), Failed: len(c.fails)}); err != nil || moved != want || !slices.Equal(told, c.fails) {
					t.Errorf("%+v, want %+v; %v; told of %v", moved, want, err, told)
				}
			})
		}
	}
}
