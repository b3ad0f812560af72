package pgstore

import (
	"cmp"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencegate/fencegate/fence"
)

// SQLSTATEs that the ledger's functions raise. FG008 is one of their class: an invalid request.
const (
	stateStale          = "FG001"
	stateSpent          = "FG002"
	stateEnded          = "FG003"
	stateUnissued       = "FG005"
	stateNotProtected   = "FG007"
	stateInvalidToken   = "FG009"
	stateChangedNothing = "FG010"
	stateUploadExpired  = "FG012"
	stateExistence      = "FG013"
	stateIsolation      = "FG014"
	stateOtherKey       = "FG015"
)

// SQLSTATEs of PostgreSQL that are told apart.
const (
	stateUniqueViolation = "23505"
	stateNotNull         = "23502"
	stateLockTimeout     = "55P03"
	stateSerialization   = "40001"
	stateDeadlock        = "40P01"
	stateReadOnly        = "25006"
	stateForbidden       = "42501"
	stateSchemaExists    = "42P06"
	stateNotSupported    = "0A000" // also: a cached plan must not change its result type
	stateCanceled        = "57014"
	stateExhausted       = "2200H"
	stateRaised          = "P0001"
	stateProtocol        = "08P01" // PgBouncer's for all that it refuses itself
)

// classify turns an error of the database into an outcome. An error that the server reported for the transaction
// undid it. Anything else leaves the outcome open, unless nothing was sent. pgx.ErrNoRows stays as it is.
func classify(err error) error {
	if err == nil || errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	var known *fence.Error
	if errors.As(err, &known) {
		return err
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		if pgconn.SafeToRetry(err) {
			return fence.Wrap(fence.CodeUnavailable, err, "PostgreSQL does not answer")
		}
		return fence.Wrap(fence.CodeOutcomeUnknown, err, "PostgreSQL did not confirm: repeat with the same token to learn the outcome")
	}
	// PgBouncer says it only in the field that PostgreSQL translates.
	if severity := cmp.Or(pg.SeverityUnlocalized, pg.Severity); severity == "FATAL" || severity == "PANIC" {
		return fence.Wrap(fence.CodeOutcomeUnknown, err, "PostgreSQL ended the session: repeat with the same token to learn the outcome")
	}
	return classifyState(pg)
}

// classifyConnect gives the error of a connection its code when trying later may help: a server that is down, starting or
// full, or a pooler that does not reach it. A wrong password or name stays as it is.
func classifyConnect(err error) error {
	state := sqlState(err)
	if err == nil || state != "" && state != stateProtocol && state[:2] != "57" && state[:2] != "53" {
		return err
	}
	return fence.Wrap(fence.CodeUnavailable, err, "PostgreSQL does not answer")
}

// classifyRead is classify for statements that change nothing: their outcome is never open.
func classifyRead(err error) error {
	err = classify(err)
	var e *fence.Error
	if errors.As(err, &e) && e.Code == fence.CodeOutcomeUnknown {
		return fence.Wrap(fence.CodeUnavailable, e.Err, "PostgreSQL does not answer")
	}
	return err
}

// classifyState is the table from SQLSTATEs to codes.
func classifyState(pg *pgconn.PgError) *fence.Error {
	inItsWords := func(code fence.Code) *fence.Error { return fence.Wrap(code, pg, "%s", pg.Message) }
	switch pg.Code {
	case stateStale:
		return inItsWords(fence.CodeStaleToken)
	case stateSpent:
		return inItsWords(fence.CodeSpentToken)
	case stateEnded:
		return inItsWords(fence.CodeGrantEnded)
	case stateUnissued:
		return inItsWords(fence.CodeUnissuedToken)
	case stateNotProtected:
		return inItsWords(fence.CodeNotFound)
	case stateInvalidToken:
		return inItsWords(fence.CodeInvalidToken)
	case stateUploadExpired:
		return inItsWords(fence.CodeUploadExpired)
	case stateExistence:
		return inItsWords(fence.CodePreconditionFailed)
	case stateChangedNothing:
		return inItsWords(fence.CodeWriteSuppressed) // or not found: explain tells
	case stateForbidden:
		return inItsWords(fence.CodeForbidden)
	case stateRaised:
		// A trigger of the table's owner refused the write.
		return inItsWords(fence.CodeConstraintViolation)
	case stateExhausted:
		return fence.Wrap(fence.CodeInternal, pg, "the ledger has no tokens left")
	case stateReadOnly:
		return fence.Wrap(fence.CodeUnavailable, pg, "PostgreSQL is read-only")
	case stateSerialization, stateDeadlock:
		return fence.Wrap(fence.CodeContention, pg, "another transaction was in the way")
	case stateLockTimeout, stateCanceled:
		return fence.Wrap(fence.CodeContention, pg, "a lock was not free in time")
	}
	switch pg.Code[:2] {
	case "22", "54", "FG": // data exception, limit exceeded, ours
		return invalid(pg)
	case "23": // integrity constraint
		return violation(pg)
	case "53", "57", "58": // resources, operator intervention, system error
		return fence.Wrap(fence.CodeUnavailable, pg, "PostgreSQL cannot serve this now")
	}
	return fence.Wrap(fence.CodeInternal, pg, "PostgreSQL refused the statement")
}

func invalid(pg *pgconn.PgError) *fence.Error {
	message := pg.Message
	if pg.Hint != "" {
		message += ". " + pg.Hint
	}
	return fence.Wrap(fence.CodeInvalidRequest, pg, "%s", message).In(pg.ColumnName)
}

func violation(pg *pgconn.PgError) *fence.Error {
	e := fence.Wrap(fence.CodeConstraintViolation, pg, "%s", pg.Message).In(pg.ColumnName)
	e.Constraint = pg.ConstraintName
	if e.Constraint == "" && pg.Code == stateNotNull {
		e.Constraint = pg.ColumnName + " not null"
	}
	return e
}

func sqlState(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// violates reports whether err is a violation of the unique constraint.
func violates(err error, constraint string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == stateUniqueViolation && pg.ConstraintName == constraint
}

// undefinedObject reports errors that a description of a table older than the table itself explains.
func undefinedObject(err error) bool {
	state := sqlState(err)
	return state == stateNotSupported || strings.HasPrefix(state, "42") && state != stateForbidden
}
