package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

const (
	// killWithin is the time after its start in which a gateway is killed.
	killWithin = 150 * time.Millisecond
	// writersEach is how many write one resource at once.
	writersEach = 2
)

// Gateways are killed on PostgreSQL and Redis that live on, so that transactions are left in the middle.
func TestGatewayKilledAtRandomPointsOfWrites(t *testing.T) {
	t.Parallel()
	rounds := 90
	if testing.Short() {
		rounds = 10
	}
	first, s := startShared(t)
	first.kill()
	killRounds(t, rounds, first.data, s.flags()...)
}

// The private PostgreSQL and Redis go down with the gateway, at whatever point they are.
func TestGatewayKilledWithItsServersAtRandomPointsOfWrites(t *testing.T) {
	t.Parallel()
	rounds := 10
	if testing.Short() {
		rounds = 2
	}
	killRounds(t, rounds, filepath.Join(t.TempDir(), "data"))
}

// killRounds starts a gateway on a folder, kills it with kill -9 in the middle of writes, and checks what it left, again
// and again:
//
//   - I1: the mark never goes back.
//   - I5: the row's balance is the token of its mark.
//   - I6: whoever reads an object, at any time, sees one whole body, that of its mark.
//   - I7: what was answered accepted stands or was superseded; what was refused never shows; a write whose answer was
//     lost is settled by repeating it.
//
// In the end no blob is left but those of the objects.
func killRounds(t *testing.T, rounds int, data string, flags ...string) {
	flags = append(flags, "--log-level=warn", "--gc-interval=200ms", "--gc-grace=3s", "--upload-limit=2s", "--download-limit=2s")
	targets := []*target{newRowTarget(t), newObjectTarget(t, "a.bin"), newObjectTarget(t, "b.bin")}
	var restarts []time.Duration
	lost := 0
	for range rounds {
		began := time.Now()
		p := startDev(t, data, flags...)
		restarts = append(restarts, time.Since(began))
		c := p.client()
		for _, r := range targets {
			r.check(c)
			lost += r.settle(c)
			r.check(c)
			r.renew(c)
		}
		if t.Failed() {
			return
		}
		hammer(p, targets)
	}
	p := startDev(t, data, flags...)
	for _, r := range targets {
		r.check(p.client())
		lost += r.settle(p.client())
	}
	if lost == 0 {
		t.Error("no write was hit by a kill: the test shows nothing")
	}
	slices.Sort(restarts)
	t.Logf("%d kills, %d writes lost their answer; restart took %v (median), %v (most)",
		rounds, lost, restarts[len(restarts)/2].Round(time.Millisecond), restarts[len(restarts)-1].Round(time.Millisecond))
	collected(t, p, len(targets)-1)
}

// hammer writes and reads all targets until the gateway is killed.
func hammer(p *program, targets []*target) {
	ctx, cancel := context.WithCancel(p.t.Context())
	defer cancel()
	var users sync.WaitGroup
	for _, r := range targets {
		for range writersEach {
			users.Go(func() { r.write(ctx, newClient(p.t, p.url)) })
		}
		users.Go(func() { r.watch(ctx, newClient(p.t, p.url)) })
	}
	<-time.After(rand.N(killWithin))
	p.kill()
	cancel()
	users.Wait()
}

// collected waits until the blob directory has the blobs of the objects and nothing else.
func collected(t *testing.T, p *program, objects int) {
	t.Helper()
	database := p.env()["FENCEGATE_DATABASE_URL"]
	orphans := queryText(t, database, "SELECT count(*)::text FROM fence.blobs WHERE state = 'pending'")
	files := blobFiles(t, p.data)
	t.Logf("%s uploads were left behind, %d files for %d objects", orphans, len(files), objects)
	// An upload is given up an hour after its limit: let the hour have passed.
	execSQL(t, database, "UPDATE fence.blobs SET state_at = state_at - interval '2 hours' WHERE state = 'pending'")
	within(t, patience, "every blob but the objects' is collected", func() bool {
		return len(blobFiles(t, p.data)) == objects && queryText(t, database, "SELECT count(*)::text FROM fence.blobs") == fmt.Sprint(objects)
	})
}

// blobFiles lists the files below the blob directory.
func blobFiles(t *testing.T, data string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(data, "blobs"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			files = append(files, path)
		}
		return nil // a file that is collected meanwhile is no error
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
