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
	stateUnadmitted     = "FG016"
	stateTruncate       = "FG017"
	stateNoSource       = "FG018"
	stateGuilty         = "FG019"
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
	stateBadDefinition   = "42P17" // a policy that asks itself
	stateBadSetting      = "22023"
	stateGenerated       = "428C9" // a column that the database generates
	statePrerequisite    = "55000" // also: a view that cannot be written like this
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
	case stateNotProtected, stateNoSource:
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
	case stateRaised, stateUnadmitted, stateTruncate:
		// A trigger of the table's owner refused the write, or that of a guarded table to which a trigger or cascade led.
		return inItsWords(fence.CodeConstraintViolation)
	case stateGenerated, statePrerequisite:
		return invalid(pg)
	case stateExhausted:
		return fence.Wrap(fence.CodeInternal, pg, "the ledger has no tokens left")
	case stateReadOnly:
		return fence.Wrap(fence.CodeUnavailable, pg, "PostgreSQL is read-only")
	case stateSerialization, stateDeadlock:
		return fence.Wrap(fence.CodeContention, pg, "another transaction was in the way")
	case stateLockTimeout:
		return fence.Wrap(fence.CodeContention, pg, "a lock was not free in time")
	case stateCanceled:
		return fence.Wrap(fence.CodeOverloaded, pg, "PostgreSQL did not finish the statement in time")
	}
	switch pg.Code[:2] {
	case "22", "54", "FG": // data exception, limit exceeded, ours
		return invalid(pg)
	case "23", "44": // integrity constraint, WITH CHECK OPTION
		return violation(pg)
	case "20", "21", "27", "2F", "38", "39", "P0": // raised by code of the table's owner, or several rows where one was looked for
		return inItsWords(fence.CodeConstraintViolation)
	case "53", "57", "58": // resources, operator intervention, system error
		return fence.Wrap(fence.CodeUnavailable, pg, "PostgreSQL cannot serve this now")
	}
	if !strings.Contains(ownClasses, " "+pg.Code[:2]+" ") {
		// One that PostgreSQL does not know was made up by code of the table's owner.
		return inItsWords(fence.CodeConstraintViolation)
	}
	return fence.Wrap(fence.CodeInternal, pg, "PostgreSQL refused the statement")
}

// ownClasses are the classes of SQLSTATEs that PostgreSQL itself uses (appendix A of its documentation).
const ownClasses = " 00 01 02 03 08 09 0A 0B 0F 0L 0P 0Z 10 20 21 22 23 24 25 26 27 28 2B 2D 2F 34 38 39 3B 3D 3F 40 42 44 53 54 55 57 58 72 F0 HV P0 XX "

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

func errorDetail(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Detail
	}
	return ""
}

// violates reports whether err is a violation of the unique constraint.
func violates(err error, constraint string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == stateUniqueViolation && pg.ConstraintName == constraint
}

// ownersFault tells an error of a function, policy or rule that a statement led to (a trigger that calls what is not there) from one of
// the statement.
func ownersFault(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || !undefinedObject(pg) || pg.Where == "" && pg.Code != stateBadDefinition && pg.Code != stateNotSupported {
		return err
	}
	var e *fence.Error
	if !errors.As(err, &e) || e.Code != fence.CodeInternal {
		return err
	}
	told := fence.Wrap(fence.CodeConstraintViolation, pg, "code of the table's owner failed: %s", pg.Message)
	told.Write, told.Token, told.State = e.Write, e.Token, e.State
	return told
}

// undefinedObject reports errors that a description of a table older than the table itself explains.
func undefinedObject(err error) bool {
	state := sqlState(err)
	return state == stateNotSupported || strings.HasPrefix(state, "42") && state != stateForbidden && state != stateGenerated
}
