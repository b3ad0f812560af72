package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/fencegate/fencegate/gateway"
)

// drainFlags say how a gateway that was told to stop lets its clients go.
type drainFlags struct {
	DrainDelay     time.Duration `default:"5s" help:"After SIGTERM: how long to go on serving while /readyz answers 503, so that load balancers send nobody else."`
	DrainTimeout   time.Duration `default:"30s" help:"Then: how long requests under way may take. Longer than a write may take."`
	DrainTransfers time.Duration `default:"15m" help:"How long uploads and downloads of objects under way may take instead. A second signal ends them."`
}

func (f drainFlags) validate() error {
	if f.DrainDelay < 0 || f.DrainTimeout <= 0 || f.DrainTransfers < f.DrainTimeout {
		return errors.New("--drain-delay is not negative, --drain-timeout positive, and --drain-transfers at least as long")
	}
	return nil
}

// atOnce is the drain of a gateway that no load balancer stands before.
func atOnce() drainFlags {
	return drainFlags{DrainTimeout: 30 * time.Second, DrainTransfers: 30 * time.Second}
}

// server serves a gateway until it is told to stop.
type server struct {
	*assembly
	listener net.Listener
	scheme   string       // of the URL that is told when it is ready
	handler  http.Handler // around the gateway
	// s3Listener is where S3's clients come to; nil if nobody lets them.
	s3Listener net.Listener
	limits     limitFlags
	drain      drainFlags
	// background tasks run beside it. They return when their context ends; an error before that stops the server.
	background map[string]func(context.Context) error
}

func newServer(a *assembly, l net.Listener, limits limitFlags, drain drainFlags) *server {
	return &server{
		assembly: a, listener: l, scheme: "http", handler: a, limits: limits, drain: drain,
		background: map[string]func(context.Context) error{"collector": a.collector.Run, "catalogue": a.store.WatchCatalogue},
	}
}

// openToS3 lets S3's clients in, where there is a listener for them.
func (s *server) openToS3(l net.Listener, tell *telemetry) {
	if l != nil {
		s.s3Listener, s.s3Front = l, tell.around(s.s3Front)
	}
}

// s3URL is where S3's clients come to.
func (s *server) s3URL() string { return s.scheme + "://" + s.s3Listener.Addr().String() }

// servers are those of the gateway and of the S3 front, which share their limits.
func (s *server) servers() map[*http.Server]net.Listener {
	cfg := gateway.ServerConfig{MaxHeader: s.limits.MaxHeader, IdleTimeout: s.limits.IdleTimeout, Log: s.log}
	all := map[*http.Server]net.Listener{gateway.NewServer(s.handler, cfg): s.listener}
	if s.s3Listener != nil {
		all[gateway.NewServer(s.s3Front, cfg)] = s.s3Listener
	}
	return all
}

// slack is memory that is reserved and never touched. What a gateway keeps is so little that the garbage collector, which runs whenever the heap
// has doubled, would run many times a second; it takes the slack for a part of the heap. A heap that is large is collected as by default.
const slack = 12 << 20

// run answers requests and runs the background tasks until the context ends or one of them fails, then lets the
// requests that are under way finish. ready is called once writes can be served.
func (s *server) run(told context.Context, ready func(url string)) error {
	defer runtime.KeepAlive(new([slack]byte))
	servers := s.servers()
	ctx, stop := context.WithCancelCause(told)
	defer stop(nil)
	var running sync.WaitGroup
	for name, task := range s.background {
		running.Go(func() {
			if err := task(ctx); err != nil && ctx.Err() == nil {
				stop(fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	// What the gateway notes while it lets the last requests finish is recorded, too.
	noting, stopNoting := context.WithCancel(context.WithoutCancel(told))
	defer stopNoting()
	running.Go(func() {
		if err := s.Run(noting); err != nil {
			stop(fmt.Errorf("gateway: %w", err))
		}
	})
	for srv, l := range servers {
		running.Go(func() {
			err := srv.Serve(l)
			if errors.Is(err, http.ErrServerClosed) {
				err = nil
			}
			stop(err)
		})
	}

	if err := s.waitReady(ctx); err != nil {
		stop(err)
	} else {
		ready(s.scheme + "://" + s.listener.Addr().String())
	}
	<-ctx.Done()
	// What has failed has nobody to be polite to.
	var failed error
	if told.Err() == nil {
		failed = context.Cause(ctx)
	} else {
		s.Leave()
		s.log.Info("leaving", "delay", s.drain.DrainDelay.String())
		time.Sleep(s.drain.DrainDelay)
	}
	s.leave(ctx, slices.Collect(maps.Keys(servers)))
	stopNoting()
	running.Wait()
	return failed
}

// leave takes nobody new and gives whoever is served time.
func (s *server) leave(ctx context.Context, servers []*http.Server) {
	began := time.Now()
	s.Drain()
	until, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.drain.DrainTransfers)
	defer cancel()
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.onlyTransfers(until, cancel)
	}()
	var leaving sync.WaitGroup
	for _, srv := range servers {
		leaving.Go(func() {
			if err := srv.Shutdown(until); err != nil {
				// Whoever is still there is cut off; a write without an answer is settled by repeating it.
				s.log.Warn("cutting off the requests that are left", "transfers", s.Transfers())
				_ = srv.Close()
			}
		})
	}
	leaving.Wait()
	cancel()
	<-over
	s.log.Info("left", "took", time.Since(began).String())
}

// onlyTransfers gives up once the drain timeout has passed and no body of an object is on its way.
func (s *server) onlyTransfers(ctx context.Context, giveUp func()) {
	tick := time.NewTimer(s.drain.DrainTimeout)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if s.Transfers() == 0 {
			giveUp()
			return
		}
		tick.Reset(50 * time.Millisecond)
	}
}

// waitReady waits until the ledger can be read.
func (s *server) waitReady(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for s.store.Ready(ctx) != nil {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return ctx.Err()
}
