// Command inprocess-object publishes an object without a gateway: the lease is taken in this process, the bytes go to a
// directory (stores/s3store puts them into S3), and the ledger checks the token when it publishes them. Gateways that share
// the ledger and the directory serve the object.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/fencegate/fencegate/fence"
	"github.com/fencegate/fencegate/lease"
	"github.com/fencegate/fencegate/lease/redislease"
	"github.com/fencegate/fencegate/stores"
	"github.com/fencegate/fencegate/stores/dirstore"
	"github.com/fencegate/fencegate/stores/pgstore"
)

const principal = "reporter"

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	ledger, err := pgstore.Open(pgstore.Config{URL: os.Getenv("FENCEGATE_DATABASE_URL")})
	if err != nil {
		return err
	}
	defer ledger.Close()
	blobs, err := dirstore.New(os.Getenv("FENCEGATE_BLOB_DIR"))
	if err != nil {
		return err
	}
	defer blobs.Close()
	objects, err := stores.NewObjects(ledger, blobs, stores.ObjectsConfig{})
	if err != nil {
		return err
	}
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
	keeper := lease.Keeper{Leases: leases, Principal: principal}
	return keeper.WithLock(ctx, "report:hello.txt", func(ctx context.Context, l *lease.Kept) error {
		return publish(ctx, objects, l)
	})
}

func publish(ctx context.Context, objects *stores.Objects, l *lease.Kept) error {
	by := fence.Access{Principal: principal, Token: l.Token()}
	written, err := objects.WriteObject(ctx, fence.ObjectWrite{
		Op: fence.OpPut, Object: fence.ObjectName{Bucket: "reports", Key: "hello.txt"}, Access: by,
		Header: fence.ObjectHeader{ContentType: "text/plain"}, Body: strings.NewReader("hello\n"), Size: -1,
	})
	if err != nil {
		return err
	}
	body, err := objects.Open(ctx, written, 0, written.Size)
	if err != nil {
		return err
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	if err == nil {
		fmt.Printf("published with token %d: %s", written.Mark, text)
	}
	return err
}
