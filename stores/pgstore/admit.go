package pgstore

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencegate/fencegate/fence"
)

// Admit checks a token for a row and raises its mark, in the caller's own transaction, before the caller changes the
// row there. It returns the resource's name. On every refusal it returns a *fence.Error and the transaction is aborted;
// the caller rolls back. The transaction must be READ COMMITTED; once admitted it must not sit idle for longer than a
// few seconds, or the server ends it: it holds up the next grant.
//
// The relation is a table's name as in SQL; key holds the parts of the primary key, percent-encoded where they contain
// a comma or a percent sign, separated by commas. The database role is the caller's authority: the grant's principal is
// not checked.
func Admit(ctx context.Context, tx pgx.Tx, relation, key string, token fence.Token) (string, error) {
	var resource string
	err := tx.QueryRow(ctx, "SELECT fence.admit($1, $2, $3)", relation, key, int64(token)).Scan(&resource)
	err = classify(err)
	var e *fence.Error
	if errors.As(err, &e) {
		e.Token = token
		addDetail(e)
	}
	return resource, err
}

// addDetail reads what fence.admit says of a refusal beside its message.
func addDetail(e *fence.Error) {
	var (
		pg     *pgconn.PgError
		detail struct {
			Resource, Lease string
			Mark            fence.Token
			First           fence.Token `json:"first_token"`
		}
	)
	if errors.As(e, &pg) && json.Unmarshal([]byte(pg.Detail), &detail) == nil && detail.Resource != "" {
		e.Lease, e.First = detail.Lease, detail.First
		e.State = &fence.State{Resource: detail.Resource, Lease: detail.Lease, Mark: detail.Mark}
	}
}
