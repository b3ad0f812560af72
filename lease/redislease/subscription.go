package redislease

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// healthInterval is how often a connection is asked whether it is alive. One that says nothing for as long again is
// given up: packets may be dropped on its way without a word.
const healthInterval = 2 * time.Second

var (
	errSilent    = errors.New("the connection says nothing")
	errElsewhere = errors.New("nothing that is published arrives there")
)

// subscription is a connection on which signals arrive. go-redis would mend it by itself, without telling that signals
// were lost, and in a cluster by a command that the node refuses; so it is thrown away at the first error.
type subscription struct {
	pubsub *redis.PubSub
	// reached publishes to the subscription by way of the client, and tells how many heard it.
	reached func(context.Context) (int64, error)
	timeout time.Duration
}

// receive passes on what arrives until the connection fails, or passing on does.
func (s subscription) receive(ctx context.Context, f func(any) error) error {
	asked, answered := time.Now(), true
	for {
		message, err := s.pubsub.ReceiveTimeout(ctx, healthInterval)
		var quiet net.Error
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			answered = true
			if err := f(message); err != nil {
				return err
			}
		case !errors.As(err, &quiet) || !quiet.Timeout():
			return err
		case !answered:
			return errSilent
		}
		if time.Since(asked) >= healthInterval {
			asked, answered = time.Now(), false
			if err := s.ask(ctx); err != nil {
				return err
			}
		}
	}
}

// ask makes the server answer on the connection. It also finds a connection to a server that is no longer the one where
// scripts run: they hear of nobody there, and take the gateway for gone.
func (s subscription) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	if err := s.pubsub.Ping(ctx); err != nil {
		return err
	}
	// That the client cannot publish at present says nothing about the connection.
	if n, err := s.reached(ctx); err == nil && n == 0 {
		return errElsewhere
	}
	return nil
}
