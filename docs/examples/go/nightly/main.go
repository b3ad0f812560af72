// Command nightly is a job that cron starts on several machines, and that is to be done once a day. The first to come does
// it; who comes while it is done, or later on that day, leaves. A machine that dies, hangs or is suspended in the middle of
// it is replaced by the next, and can publish nothing afterwards.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/gateway/client"
	"github.com/fencegate/fencegate/lease"
)

func main() {
	c, err := client.New(client.Config{URL: os.Getenv("FENCEGATE_URL"), AuthToken: os.Getenv("FENCEGATE_AUTH_TOKEN")})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	switch err := nightly(context.Background(), c, time.Now()); fence.CodeOf(err) {
	case fence.CodeAccepted:
		fmt.Println("published")
	case fence.CodeLeaseHeld:
		fmt.Println("somebody else is at it")
	case fence.CodePreconditionFailed:
		fmt.Println("it was done before")
	default:
		log.Fatal(err)
	}
}

func nightly(ctx context.Context, c *client.Client, day time.Time) error {
	report := fence.ObjectName{Bucket: "reports", Key: day.Format("nightly/2006-01-02.csv")}
	state, err := c.ObjectMark(ctx, report) // tells which lease protects it
	if err != nil {
		return err
	}
	keeper := lease.Keeper{Leases: c, MaxHold: 2 * time.Hour, StallAfter: time.Minute}
	return keeper.WithLock(ctx, state.Lease, func(ctx context.Context, l *lease.Kept) error {
		body, err := compile(ctx, l.Beat)
		if err != nil {
			return err
		}
		_, err = c.WriteObject(ctx, fence.ObjectWrite{
			Op: fence.OpPut, Object: report, Access: fence.Access{Token: l.Token()}, If: fence.Condition{Absent: true},
			Header: fence.ObjectHeader{ContentType: "text/csv"}, Body: bytes.NewReader(body),
		})
		return err
	})
}

// compile stands for the work. It says now and then that it makes progress, and stops when its context ends: the lease is
// lost.
func compile(ctx context.Context, beat func()) ([]byte, error) {
	var body bytes.Buffer
	for line := range 1000 {
		if ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), context.Cause(ctx))
		}
		beat()
		fmt.Fprintf(&body, "%d,%d\n", line, line*line)
	}
	return body.Bytes(), nil
}
