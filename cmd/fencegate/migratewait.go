package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// pauseBetweenTries is how often a PostgreSQL that does not answer yet is asked again.
const pauseBetweenTries = 200 * time.Millisecond

// waitForPostgres returns once a connection can be made, or with the reason why none can: at once when waiting does not
// help, else after limit. told hears of the first attempt that leads to waiting.
func waitForPostgres(ctx context.Context, databaseURL string, limit time.Duration, told func(error)) error {
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return err
	}
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for first := true; ; first = false {
		conn, err := pgx.ConnectConfig(waiting, config)
		if err == nil {
			return conn.Close(waiting)
		}
		if final(err) || ctx.Err() != nil {
			return err
		}
		if first {
			told(err)
		}
		select {
		case <-waiting.Done():
			return fmt.Errorf("PostgreSQL does not answer after %v: %w", limit, err)
		case <-time.After(pauseBetweenTries):
		}
	}
}

// final tells a refusal that will be the same in a minute: who asks is not let in (class 28), or there is no such
// database. A pooler refuses in its own way (08P01) what only the migration itself can explain.
func final(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (strings.HasPrefix(pg.Code, "28") || pg.Code == "3D000" || pg.Code == "08P01")
}

// passwordIsEscaped refuses a URL in which a / of the password ends the host, so that what follows it would be taken for
// the name of the database, and be shown in errors.
func passwordIsEscaped(databaseURL string) error {
	u, err := url.Parse(databaseURL)
	if err == nil && u.Host != "" && strings.Contains(u.EscapedPath(), "@") {
		return errors.New("the database URL has an @ after its first /: write / in a password as %2F, and @ in the name of a database as %40")
	}
	return nil // what is no URL is the parser's to refuse
}
