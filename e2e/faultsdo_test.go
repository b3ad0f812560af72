package e2e

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/e2e/history"
	"github.com/fencegate/fencegate/internal/localservers"
)

// disturb plays the plan and returns when all is healed.
func (r *faultsRig) disturb(ctx context.Context, plan []planned) {
	began := time.Now()
	var under sync.WaitGroup
	places := map[string]*sync.Mutex{}
	for _, p := range plan {
		wait(ctx, time.Until(began.Add(p.at)))
		if ctx.Err() != nil {
			break
		}
		place := places[p.place()]
		if place == nil {
			place = &sync.Mutex{}
			places[p.place()] = place
		}
		under.Go(func() {
			// A fault that lasts longer than planned, because a server was slow to come back, keeps the next one out.
			if place.TryLock() {
				defer place.Unlock()
				r.do(ctx, p)
			}
		})
	}
	under.Wait()
}

// do does a fault, lets it last, and heals it.
func (r *faultsRig) do(ctx context.Context, p planned) {
	from := monotonic()
	switch p.kind {
	case clientPaused:
		c := r.clients[p.target]
		c.signal(syscall.SIGSTOP)
		wait(ctx, p.lasts)
		c.signal(syscall.SIGCONT)
	case clientKilled:
		c := r.clients[p.target]
		c.kill()
		r.must(p.kind, c.start())
	case gatewayPaused:
		g := r.gateways[p.target]
		g.signal(syscall.SIGSTOP)
		wait(ctx, p.lasts)
		g.signal(syscall.SIGCONT)
	case gatewayKilled:
		g := r.gateways[p.target]
		g.kill()
		wait(ctx, p.lasts)
		r.must(p.kind, g.start(context.WithoutCancel(ctx)))
	case postgresPaused:
		r.pause(ctx, p.lasts, r.postgresProcess())
	case postgresKilled:
		r.postgresProcess().Kill()
		r.must(p.kind, r.startPostgres(context.WithoutCancel(ctx)))
	case postgresSlow, linkDisturbed:
		r.disturbLink(ctx, p)
	case s3Bad:
		r.badS3.be(p.variant)
		wait(ctx, p.lasts)
		r.badS3.be("")
	case s3Paused:
		r.pause(ctx, p.lasts, r.s3Server.Process)
	case redisPaused:
		primary, _ := r.redisServers()
		r.pause(ctx, p.lasts, primary.Process)
	default:
		r.loseLeases(ctx, p)
		return
	}
	about := ""
	switch p.kind {
	case postgresSlow, linkDisturbed:
		about = r.link(p.target).name
	case clientPaused, clientKilled, gatewayPaused, gatewayKilled:
		about = string(rune('1' + p.target))
	}
	r.happened(history.Fault{From: from, What: p.kind + ": " + about + " " + p.variant})
}

func (r *faultsRig) must(what string, err error) {
	if err != nil {
		r.problem("%s: %v", what, err)
	}
}

func (r *faultsRig) pause(ctx context.Context, lasts time.Duration, p *localservers.Process) {
	r.must("pause", p.Pause())
	wait(ctx, lasts)
	r.must("resume", p.Resume())
}

func (r *faultsRig) postgresProcess() *localservers.Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.postgres.Process
}

func (r *faultsRig) redisServers() (primary, replica *localservers.Redis) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.redis[r.primary], r.redis[1-r.primary]
}

// loseLeases does a fault by which Redis forgets leases or brings old ones back.
func (r *faultsRig) loseLeases(ctx context.Context, p planned) {
	primary, replica := r.redisServers()
	healing := context.WithoutCancel(ctx)
	from := monotonic()
	switch p.kind {
	case redisFlushed:
		client := redis.NewClient(&redis.Options{Addr: primary.Address(), ContextTimeoutEnabled: true})
		r.must(p.kind, client.FlushAll(healing).Err())
		client.Close()
	case redisKilled:
		r.mu.Lock()
		i := r.primary
		r.mu.Unlock()
		primary.Kill()
		r.must(p.kind, r.startRedis(healing, i))
	case redisPromoted:
		r.must(p.kind, replica.Cut(healing))
		wait(ctx, p.ahead)
		from = monotonic()
		r.must(p.kind, replica.Promote(healing))
		moved := r.gateways[:]
		if p.variant == "split" {
			moved = moved[:1]
		}
		for _, g := range moved {
			g.redis().bridge.lead("tcp", replica.Address())
			g.redis().bridge.sever()
		}
		if p.variant == "split" {
			wait(ctx, p.lasts)
			g := r.gateways[1]
			g.redis().bridge.lead("tcp", replica.Address())
			g.redis().bridge.sever()
		}
		r.mu.Lock()
		r.primary = 1 - r.primary
		r.mu.Unlock()
		r.must(p.kind, primary.Follow(healing, replica))
	}
	r.happened(history.Fault{From: from, What: p.kind + ": " + p.variant, Lossy: true})
}

func (r *faultsRig) link(n int) *faultsLink { return r.gateways[n/linksEach].links[n%linksEach] }

func (r *faultsRig) disturbLink(ctx context.Context, p planned) {
	l := r.link(p.target)
	// The schedule's own seed is spent: how bad it is need not be the same again.
	upTo := func(n int) int { return 1 + rand.IntN(n) }
	stream := []string{"upstream", "downstream"}[rand.IntN(2)]
	heal := func() { l.cure(context.WithoutCancel(ctx)) }
	poison := func(toxic string, attributes map[string]int) { r.must(p.kind, l.poison(toxic, stream, attributes)) }
	switch p.variant {
	case "": // PostgreSQL is slow
		poison("latency", map[string]int{"latency": 200 + upTo(700), "jitter": 100})
	case "latency":
		poison(p.variant, map[string]int{"latency": upTo(400), "jitter": 50})
	case "timeout":
		poison(p.variant, map[string]int{"timeout": 0})
	case "reset_peer":
		poison(p.variant, map[string]int{"timeout": upTo(300)})
	case "slicer":
		poison(p.variant, map[string]int{"average_size": 64, "size_variation": 32, "delay": 200})
	case "limit_data":
		poison(p.variant, map[string]int{"bytes": upTo(20000)})
	case "bandwidth":
		poison(p.variant, map[string]int{"rate": 20 + upTo(200)})
	case "cut":
		to := l.bridge.to.Swap(nil)
		l.bridge.sever()
		// A gateway that was started meanwhile has another address, which stays.
		heal = func() { l.bridge.to.CompareAndSwap(nil, to) }
	case "answers closed", "requests closed":
		l.bridge.halfClose(p.variant == "answers closed")
	}
	wait(ctx, p.lasts)
	heal()
	// What was swallowed on the way is not coming any more, and a connection that waits for it would for ever.
	if p.variant == "timeout" || p.variant == "limit_data" || strings.HasSuffix(p.variant, "closed") {
		l.bridge.sever()
	}
}

// holdRows is a plain SQL writer's part: it holds rows for a while.
func (r *faultsRig) holdRows(ctx context.Context) {
	r.asSQL(ctx, func(conn *pgx.Conn) error {
		wait(ctx, time.Duration(100+rand.IntN(500))*time.Millisecond)
		from := monotonic()
		id := rand.IntN(r.config.leases)
		err := holdRow(ctx, conn, id, time.Duration(50+rand.IntN(350))*time.Millisecond)
		r.happened(history.Fault{From: from, What: "row held: " + rowOf(id), Small: true})
		return err
	})
}

// giveUpBlobs is an impatient collector.
func (r *faultsRig) giveUpBlobs(ctx context.Context) {
	client := r.bucket.Client()
	r.asSQL(ctx, func(conn *pgx.Conn) error {
		wait(ctx, time.Duration(50+rand.IntN(400))*time.Millisecond)
		from := monotonic()
		id, err := abortBlob(ctx, conn)
		if err != nil || id == "" {
			return err
		}
		// One that cannot be deleted now stays, as an orphan of the test.
		_, _ = client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &r.bucket.Bucket, Key: aws.String(".fencegate/" + id)})
		r.happened(history.Fault{From: from, What: "blob given up: " + id, Small: true})
		return nil
	})
}

// asSQL repeats f on a connection past the faults, and makes a new connection after each error, until the context ends.
func (r *faultsRig) asSQL(ctx context.Context, f func(*pgx.Conn) error) {
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, 3*time.Second)
		conn, err := pgx.Connect(limited, r.database())
		cancel()
		if err != nil {
			wait(ctx, 50*time.Millisecond)
			continue
		}
		for err = nil; err == nil && ctx.Err() == nil; {
			err = f(conn)
		}
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		_ = conn.Close(closing)
		cancel()
	}
}
