package etcdlease

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
)

// Fill puts entries in a queue, many in one transaction, and several of those at a time. Nobody can find them by their
// values.
func Fill(t *testing.T, locker lease.Locker, name string, entries int) {
	t.Helper()
	l := locker.(*Locker)
	ctx := context.WithoutCancel(t.Context())
	const most = 100
	var filling errgroup.Group
	filling.SetLimit(8)
	for first := 0; first < entries; first += most {
		filling.Go(func() error {
			return l.call(ctx, name, fence.Digest{}, 1, func(ctx context.Context, a *attempt) error {
				return fill(ctx, a, first, min(entries, first+most))
			})
		})
	}
	if err := filling.Wait(); err != nil {
		t.Fatal(err)
	}
}

func fill(ctx context.Context, a *attempt, first, end int) error {
	s, err := a.read(ctx)
	if err != nil {
		return err
	}
	session, err := a.session.lease(ctx, a.c)
	if err != nil {
		return err
	}
	var ops []clientv3.Op
	for i := first; i < end; i++ {
		at := a.stand(s, lease.Entry{Value: fence.DigestOf("fills", fmt.Sprint(i))})
		ops = append(ops, a.standAt(at, entry{Waiters: 1}, session)[0])
	}
	_, err = a.commit(ctx, nil, ops...)
	return err
}

// Leftovers are the keys that have to do with a lease.
func Leftovers(t *testing.T, url string, c Config, name string) []string {
	t.Helper()
	l, err := Open(url, c)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := l.connect.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := client.Get(t.Context(), l.config.Prefix+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, kv := range all.Kvs {
		if strings.Contains(string(kv.Key)+"/", "/"+encodeName(name)+"/") {
			left = append(left, string(kv.Key))
		}
	}
	return left
}

// HeldKey is where a lease's record is kept.
func HeldKey(c Config, name string) string { return keys(c.withDefaults().Prefix).lease(name).held() }

// QueueKey is where a lease's entries stand.
func QueueKey(c Config, name string) string { return keys(c.withDefaults().Prefix).lease(name).queue() }

// ForgetSession makes a locker begin another session.
func ForgetSession(l *Locker) { l.session.forget() }

// EntryKey is where it is kept where a value stands.
func EntryKey(c Config, name string, v fence.Digest) string {
	return keys(c.withDefaults().Prefix).lease(name).entry(v)
}

// SignalKey is a key that a locker watches.
func SignalKey(c Config, l *Locker, rest string) string {
	return keys(c.withDefaults().Prefix).signals(l.gateway) + rest
}

// Record is a record of ours.
func Record(v fence.Digest) string {
	return held{value: v, gateway: "g", holder: "h", ttl: time.Minute, stamp: 1}.String()
}
