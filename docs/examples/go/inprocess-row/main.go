// Command inprocess-row spends 10 from a wallet without a gateway: the lease is taken in this process, and its token is
// checked by the ledger in the transaction that changes the row. Gateways and SQL writers of the same database are fenced
// together with it. The table may be guarded (fencegate protect wallets --guard): without the admission the UPDATE is refused then.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/redislease"
	"github.com/fencegate/fencegate/stores/pgstore"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	database := os.Getenv("FENCEGATE_DATABASE_URL")
	ledger, err := pgstore.Open(pgstore.Config{URL: database})
	if err != nil {
		return err
	}
	defer ledger.Close()
	id, err := ledger.LedgerID(ctx)
	if err != nil {
		return err
	}
	config := redislease.Config{Prefix: "fencegate:" + id} // as the gateways of this ledger have it
	redis, err := redislease.Open(os.Getenv("FENCEGATE_REDIS_URL"), config)
	if err != nil {
		return err
	}
	defer redis.Close()
	locker, err := redislease.New(redis, config)
	if err != nil {
		return err
	}
	leases, err := lease.NewManager(locker, ledger, lease.Config{})
	if err != nil {
		return err
	}
	defer leases.Close()
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return err
	}
	defer pool.Close()
	keeper := lease.Keeper{Leases: leases, Principal: "spender"}
	return keeper.WithLock(ctx, "wallet:42", func(ctx context.Context, l *lease.Kept) error {
		return spend(ctx, pool, l)
	})
}

// spend changes the row in a transaction of the caller's. Once admitted it must not dawdle: it holds up the next grant.
func spend(ctx context.Context, pool *pgxpool.Pool, l *lease.Kept) error {
	return pgx.BeginTxFunc(ctx, pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := pgstore.Admit(ctx, tx, "wallets", "42", l.Token()); err != nil {
			return err // stale, ended or spent: nothing is changed
		}
		var left string
		err := tx.QueryRow(ctx, "UPDATE wallets SET balance = balance - 10 WHERE id = 42 AND balance >= 10 RETURNING balance").Scan(&left)
		if errors.Is(err, pgx.ErrNoRows) {
			return errors.New("there is not enough in the wallet")
		}
		if err == nil {
			fmt.Println("left:", left)
		}
		return err
	})
}
