package client_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/fencegate/fencegate/gateway"
	"github.com/fencegate/fencegate/gateway/client"
	"github.com/fencegate/fencegate/gateway/gatewaytest"
	"github.com/fencegate/fencegate/lease"
)

// Work under a lease: it is renewed while the function runs, and each write spends one of its tokens.
func Example() {
	memory := gatewaytest.New() // in place of a gateway that runs
	g, err := gateway.New(gateway.Config{Leases: memory, Rows: memory, Objects: memory, Readiness: memory})
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(g)
	defer server.Close()

	gateway, err := client.New(client.Config{URL: server.URL})
	if err != nil {
		panic(err)
	}
	defer gateway.Close()
	wallet := client.RowName("wallets", "42")
	keeper := lease.Keeper{Leases: gateway, TTL: 10 * time.Second, Wait: time.Minute}
	err = keeper.WithLock(context.Background(), "wallets:42", func(ctx context.Context, l *lease.Kept) error {
		for balance := 30; balance > 0; balance -= 10 {
			token, err := l.Tokens().Next(ctx)
			if err != nil {
				return err
			}
			row, err := gateway.PutRow(ctx, wallet, token, map[string]int{"balance": balance})
			if err != nil {
				return err // refused: the lease has passed on
			}
			fmt.Println(row.Mark, string(row.JSON))
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// 1001 {"balance":30}
	// 1002 {"balance":20}
	// 1003 {"balance":10}
	// <nil>
}
