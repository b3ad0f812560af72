// Command wallet is the wallet of the articles about locks: it holds 100, and fifty spenders need 10 each. Each takes the
// wallet's lease, looks, and writes what is left. Ten are served, whoever is paused for however long.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencegate/fencegate/gateway/client"
	"github.com/fencegate/fencegate/lease"
)

const price = 10

func main() {
	c, err := client.New(client.Config{URL: os.Getenv("FENCEGATE_URL"), AuthToken: os.Getenv("FENCEGATE_AUTH_TOKEN")})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	var served atomic.Int32
	var spenders sync.WaitGroup
	for range 50 {
		spenders.Go(func() {
			ok, err := spend(context.Background(), c)
			if err != nil {
				log.Println("not served:", err)
			}
			if ok {
				served.Add(1)
			}
		})
	}
	spenders.Wait()
	fmt.Printf("%d of 50 were served\n", served.Load())
}

// spend takes the price out of the wallet if there is enough in it.
func spend(ctx context.Context, c *client.Client) (ok bool, err error) {
	wallet := client.RowName("wallets", "42")
	keeper := lease.Keeper{Leases: c, TTL: 10 * time.Second, Wait: time.Minute}
	err = keeper.WithLock(ctx, "wallet:42", func(ctx context.Context, l *lease.Kept) error {
		row, err := c.GetRow(ctx, wallet)
		if err != nil {
			return err
		}
		var columns struct{ Balance int64 }
		if err := client.DecodeRow(row, &columns); err != nil || columns.Balance < price {
			return err
		}
		// Were the lease lost by now, the token would be refused, and nothing would be spent.
		_, err = c.PatchRow(ctx, wallet, l.Token(), map[string]int64{"balance": columns.Balance - price})
		ok = err == nil
		return err
	})
	return ok, err
}
