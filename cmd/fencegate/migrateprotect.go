package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/stores/pgstore"
)

// binding is what is to be protected by a lease: a table, a view by the columns of key, or the keys of a bucket below a prefix.
type binding struct {
	table, bucket, prefix, template string
	key                             []string
}

func (b binding) String() string {
	switch {
	case b.bucket == "":
		return "table " + b.table
	case b.prefix == "":
		return "bucket " + b.bucket
	}
	return "bucket " + b.bucket + ", keys below " + b.prefix
}

// protect registers it with the ledger.
func (b binding) protect(ctx context.Context, store *pgstore.Store) error {
	if b.bucket != "" {
		return store.ProtectBucket(ctx, b.bucket, b.prefix, b.template)
	}
	if len(b.key) > 0 {
		return store.ProtectView(ctx, b.table, b.template, b.key)
	}
	return store.Protect(ctx, b.table, b.template)
}

// unprotect takes it back.
func (b binding) unprotect(ctx context.Context, store *pgstore.Store) error {
	if b.bucket != "" {
		return store.UnprotectBucket(ctx, b.bucket, b.prefix)
	}
	return store.Unprotect(ctx, b.table)
}

// readBindings reads the values of --protect and --protect-bucket.
func readBindings(tables, buckets []string) ([]binding, error) {
	var list []binding
	for _, line := range lines(tables) {
		table, template, ok := cutOutsideQuotes(line)
		if !ok || table == "" || template == "" {
			return nil, fmt.Errorf("--protect %s: it has the form TABLE=TEMPLATE, such as wallets=wallet:{id}", line)
		}
		list = append(list, binding{table: table, template: template})
	}
	for _, line := range lines(buckets) {
		name, template, _ := strings.Cut(line, "=")
		bucket, prefix, _ := strings.Cut(name, "/")
		if bucket == "" || template == "" {
			return nil, fmt.Errorf("--protect-bucket %s: it has the form BUCKET=TEMPLATE or BUCKET/PREFIX=TEMPLATE, such as reports=report:{key}", line)
		}
		if prefix != "" && strings.Contains(template, "=") {
			return nil, fmt.Errorf("--protect-bucket %s: which = ends the prefix is not clear, use fencegate protect --bucket %s --prefix … --lease …", line, bucket)
		}
		list = append(list, binding{bucket: bucket, prefix: prefix, template: template})
	}
	return list, nil
}

func lines(values []string) (list []string) {
	for _, value := range values {
		for line := range strings.Lines(value) {
			if line = strings.TrimSpace(line); line != "" {
				list = append(list, line)
			}
		}
	}
	return list
}

// cutOutsideQuotes cuts at the first = that no double quotes of an SQL name enclose.
func cutOutsideQuotes(s string) (before, after string, found bool) {
	quoted := false
	for i, r := range s {
		switch {
		case r == '"':
			quoted = !quoted // a doubled quote inside a name changes it twice
		case r == '=' && !quoted:
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

// protectAll protects what is not protected by the same template yet.
func protectAll(ctx context.Context, out io.Writer, url string, wanted []binding) error {
	if len(wanted) == 0 {
		return nil
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("protect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	store, err := pgstore.Open(pgstore.Config{URL: url})
	if err != nil {
		return err
	}
	defer store.Close()
	for _, b := range wanted {
		how := "is already"
		if !inForce(ctx, conn, b) {
			how = "is now"
			if err := b.protect(ctx, store); err != nil {
				return fmt.Errorf("protect %s: %s", b, sayable(err))
			}
		}
		fmt.Fprintf(out, "%s %s protected by lease %s\n", b, how, b.template)
	}
	return nil
}

// inForce tells whether a binding stands as it should, for what is said of it: protecting anyway would change nothing. What keeps the
// question from being answered keeps protect from working as well, and protect says it better.
func inForce(ctx context.Context, conn *pgx.Conn, b binding) bool {
	query, args := `SELECT EXISTS (SELECT FROM fence.protected p
		WHERE kind = 'table' AND name = fence.table_name($1) AND template = $2 AND fence.as_protected(p))`, []any{b.table, b.template}
	if b.bucket != "" {
		query, args = `SELECT EXISTS (SELECT FROM fence.protected
			WHERE kind = 'bucket' AND name = $1 AND prefix = $2 AND template = $3)`, []any{b.bucket, b.prefix, b.template}
	}
	var same bool
	err := conn.QueryRow(ctx, query, args...).Scan(&same)
	return err == nil && same
}
