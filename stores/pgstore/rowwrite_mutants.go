//go:build mutants

package pgstore

import (
	"fmt"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/fencegate/fencegate/fence"
)

// mutantOneStatement makes admit and change one statement: the way to write it that looks natural and loses data.
// Builds with the tag mutants are for the test that the checkers of histories find such mistakes.
const mutantOneStatement = "one-statement"

func queueRowWrite(batch *pgx.Batch, t *table, w fence.RowWrite, text string) int {
	if os.Getenv("FENCEGATE_MUTANT") != mutantOneStatement || w.Op != fence.OpPatch {
		return queueAdmitAndChange(batch, t, w, text)
	}
	change, args := changeSQL(t, w, text, "")
	admitArgs := make([]string, len(admitRowArgs(t, w)))
	for i := range admitArgs {
		admitArgs[i] = fmt.Sprintf("$%d", len(args)+1+i)
	}
	// A row that is there is admitted and changed, all in one snapshot.
	admit := "WITH v AS MATERIALIZED (SELECT " + verdictColumns + " FROM fence.admit_row(" + strings.Join(admitArgs, ", ") + ") v" +
		" WHERE EXISTS (SELECT 1 FROM " + t.name + " AS t WHERE " + keyMatch(t, 3) + ")), "
	ctes, _, found := strings.Cut(strings.TrimPrefix(change, "WITH "), " SELECT "+bounded("j", "NULL")+", false FROM u")
	ctes = strings.ReplaceAll(ctes, "fence.admitted($1)", "$1::bigint > 0 AND (SELECT v.code = 'accepted' FROM v)")
	if !found {
		panic("the statement is not what the mutant knows")
	}
	batch.Queue(admit+ctes+" SELECT "+verdictColumns+" FROM (VALUES (1)) one LEFT JOIN v ON true WHERE v.code IS NOT NULL OR fence.undo(0)",
		append(args, admitRowArgs(t, w)...)...)
	batch.Queue("SELECT pg_catalog.row_to_json(t.*)::text, false FROM "+t.name+" AS t WHERE "+keyMatch(t, 2)+" AND fence.admitted($1)",
		append([]any{int64(w.Token)}, keyArgs(t, w.Row.Key)...)...)
	return 0
}
