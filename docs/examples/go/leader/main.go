// Command leader elects one of several processes. The leader says every half second that it leads, in an object that only
// the holder of its lease can write: a leader that was paused and replaced cannot take the word back. Each process has a name:
//
//	leader a & leader b &
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway/client"
	"github.com/fencegate/fencegate/lease"
)

func main() {
	name := os.Args[1]
	c, err := client.New(client.Config{URL: os.Getenv("FENCEGATE_URL"), AuthToken: os.Getenv("FENCEGATE_AUTH_TOKEN")})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	keeper := lease.Keeper{Leases: c, Holder: name, TTL: 5 * time.Second, Wait: time.Hour}
	for ctx.Err() == nil {
		err := keeper.WithLock(ctx, "report:leader", func(ctx context.Context, l *lease.Kept) error {
			fmt.Println(name, "leads")
			return lead(ctx, c, name, l)
		})
		// Lost, or not won: campaign again.
		var lost *lease.LostError
		if errors.As(err, &lost) {
			fmt.Println(name, "leads no more:", lost)
		} else if ctx.Err() == nil {
			fmt.Println(name, "does not lead:", err)
			time.Sleep(time.Second)
		}
	}
}

// lead does what a leader does, until it is one no more.
func lead(ctx context.Context, c *client.Client, name string, l *lease.Kept) error {
	for tick := time.NewTicker(500 * time.Millisecond); ; {
		token, err := l.Tokens().Next(ctx)
		if err != nil {
			return err
		}
		if _, err := c.PutObject(ctx, fence.ObjectName{Bucket: "reports", Key: "leader"}, token, strings.NewReader(name)); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
