package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/stores/pgstore"
)

type ledgerCmd struct {
	Advance advanceCmd `cmd:"" help:"After a restore, or a fail-over that lost commits: end all grants and skip ahead in the tokens."`
}

type advanceCmd struct {
	databaseFlag
	PgBouncer bool          `name:"pgbouncer" help:"PostgreSQL is behind a pooler in transaction mode, such as PgBouncer."`
	Blocks    int64         `env:"FENCEGATE_ADVANCE_BLOCKS" default:"1000000000" help:"How many blocks of 1000 tokens to skip. It must exceed what the lost part can have drawn: one block for each acquire."`
	Wait      time.Duration `env:"FENCEGATE_ADVANCE_WAIT" default:"30s" help:"Longest wait for the writes that are under way."`
	Yes       bool          `env:"-" help:"Do not ask."`
}

// Help is shown below the flags of fencegate ledger advance.
func (advanceCmd) Help() string {
	return `A ledger that was restored from a backup, or that lost commits in a fail-over, does not know of the grants and writes
of the lost part, and would issue their tokens a second time. This ends every grant, so that no token from before is
accepted any more, and goes on with tokens beyond those of the lost part. Holders acquire their leases again.

Gateways may run meanwhile. It waits half a second at a time for the writes under way, and lets others pass in between;
while it then ends the grants, requests are answered late, or with 503 when there are very many. Leases that were taken in the lost part run in Redis until they expire:
deleting the keys below the deployment's prefix hands them on sooner, and is safe.`
}

const advanceWord = "advance"

// Run tells what it will do, asks, and does it.
func (c *advanceCmd) Run(std *streams, rc *runContext) error {
	if c.Blocks < 1 || c.Wait < time.Millisecond {
		return errors.New("--blocks and --wait must be positive")
	}
	config, err := pgx.ParseConfig(c.DatabaseURL)
	if err != nil {
		return err // pgx leaves the password out
	}
	if err := pgstore.CheckSchema(rc, c.DatabaseURL); err != nil {
		return err
	}
	store, err := pgstore.Open(pgstore.Config{URL: c.DatabaseURL, Pooled: c.PgBouncer})
	if err != nil {
		return err
	}
	defer store.Close()
	live, all, err := store.LiveGrants(rc)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "the ledger in database %s on %s (port %d), as %s:\n", config.Database, config.Host, config.Port, config.User)
	least := ""
	if !all {
		least = "at least "
	}
	fmt.Fprintf(std.out, "  %s%d live grants will end, and every token issued so far is void\n", least, live)
	fmt.Fprintf(std.out, "  the next grant's tokens lie %d blocks further on\n", c.Blocks)
	if !c.Yes {
		if err := confirm(rc, std, advanceWord); err != nil {
			return err
		}
	}
	done, err := store.Advance(rc, c.Blocks, c.Wait)
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, "advanced: %d grants ended; tokens begin at %d from now on\n", done.Ended, done.First)
	return nil
}

// confirm asks for a word on standard input. Without anybody to ask it refuses.
func confirm(ctx context.Context, std *streams, word string) error {
	unasked := fmt.Errorf("nothing was changed: type %s on a terminal to confirm, or give --yes", word)
	if f, ok := std.in.(*os.File); ok {
		info, err := f.Stat()
		if err != nil || info.Mode()&os.ModeCharDevice == 0 {
			return unasked
		}
	}
	fmt.Fprintf(std.out, "type %s to go on: ", word)
	answer := make(chan error, 1)
	// A read from a terminal cannot be interrupted; when the context ends first, the program ends with it.
	go func() {
		line, err := bufio.NewReader(io.LimitReader(std.in, 256)).ReadString('\n')
		if strings.TrimSpace(line) == word && (err == nil || errors.Is(err, io.EOF)) {
			answer <- nil
			return
		}
		answer <- unasked
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
