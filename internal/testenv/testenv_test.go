package testenv_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/fencegate/fencegate/internal/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

func TestDatabase(t *testing.T) {
	t.Run("EachTestHasItsOwn", func(t *testing.T) {
		first, second := connect(t, testenv.Database(t)), connect(t, testenv.Database(t))
		if _, err := first.Exec(t.Context(), "CREATE TABLE wallets (id int)"); err != nil {
			t.Fatal(err)
		}
		if _, err := second.Exec(t.Context(), "CREATE TABLE wallets (id int)"); err != nil {
			t.Fatalf("a table of one test is in the way of another: %v", err)
		}
	})
	t.Run("DroppedWhileConnected", func(t *testing.T) {
		var url string
		t.Run("Inner", func(t *testing.T) {
			url = testenv.Database(t)
			// Left open on purpose: a test that leaks a connection must not leak its database too.
			conn, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			if err := conn.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
		if conn, err := pgx.Connect(t.Context(), url); err == nil {
			conn.Close(t.Context())
			t.Fatal("the database outlived its test")
		}
	})
}

func TestPostgresServerIsTheTestsOwn(t *testing.T) {
	a, b := testenv.PostgresServer(t), testenv.PostgresServer(t)
	a.Kill()
	if _, err := pgx.Connect(t.Context(), a.URL("")); err == nil {
		t.Fatal("a killed server answers")
	}
	if err := connect(t, b.URL("")).Ping(t.Context()); err != nil {
		t.Fatalf("the other server: %v", err)
	}
}

func TestRedisServerIsPausedAndResumed(t *testing.T) {
	server := testenv.RedisServer(t)
	client := redisClient(t, server.URL())
	if err := client.Set(t.Context(), "a", "1", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := client.Get(ctx, "a").Err(); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a paused server: got %v", err)
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	if got, err := client.Get(t.Context(), "a").Result(); err != nil || got != "1" {
		t.Fatalf("after the pause: got %q, %v", got, err)
	}
	if err := redisClient(t, testenv.Redis(t)).Get(t.Context(), "a").Err(); !errors.Is(err, redis.Nil) {
		t.Fatalf("the shared server has the other's key: %v", err)
	}
}

func TestBucketKeepsBodyAndMetadata(t *testing.T) {
	bucket := testenv.Bucket(t)
	client := bucket.Client()
	key, body := "reports/a.csv", []byte("a,b\n1,2\n")
	_, err := client.PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: &bucket.Bucket, Key: &key, Body: bytes.NewReader(body), Metadata: map[string]string{"by": "worker-a"},
	})
	if err != nil {
		t.Fatal(err)
	}
	object, err := client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &bucket.Bucket, Key: &key})
	if err != nil {
		t.Fatal(err)
	}
	defer object.Body.Close()
	got, err := io.ReadAll(object.Body)
	if err != nil || !bytes.Equal(got, body) || object.Metadata["by"] != "worker-a" {
		t.Fatalf("got %q, %v, %v", got, object.Metadata, err)
	}
}

func TestS3ServerIsTheTestsOwn(t *testing.T) {
	server, bucket := testenv.S3Server(t)
	server.Kill()
	if _, err := bucket.Client().ListBuckets(t.Context(), nil); err == nil {
		t.Fatal("a killed server answers")
	}
	if _, err := testenv.Bucket(t).Client().ListBuckets(t.Context(), nil); err != nil {
		t.Fatalf("the shared server: %v", err)
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func redisClient(t *testing.T, url string) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	options.ContextTimeoutEnabled = true
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	return client
}
