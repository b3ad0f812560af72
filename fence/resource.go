package fence

import (
	"encoding/json"
	"time"
)

// State is what every answer about a resource tells.
type State struct {
	// Resource is the canonical name: rows/public.wallets/42 or objects/reports/2026/a.csv.
	Resource string
	// Lease is the name of the lease that protects the resource.
	Lease string
	// Mark is the highest token accepted for it, 0 if it was never written.
	Mark Token
	// MarkedBy and WrittenAt tell who wrote the mark, and when by the ledger's clock.
	MarkedBy  string
	WrittenAt time.Time
}

// Access is who touches a resource. A read carries a token only when the reader wants to be refused once its
// grant is no longer the newest.
type Access struct {
	Principal string
	Token     Token
	As        Identity
}

// Identity is as whom the database sees a principal, so that its privileges and row security apply to what is read and
// written. The zero Identity is the gateway's own role.
type Identity struct {
	// Role is a database role, as the catalogue has its name.
	Role string
	// Claims is a JSON object that policies read as current_setting('request.jwt.claims', true).
	Claims string
}

// RowName names a row as a client does.
type RowName struct {
	// Table is a table's name, quoted as in SQL where it needs quoting; without a schema it is in public.
	Table string
	// Key holds the decoded parts of the primary key, in its order.
	Key []string
}

// Op is what a write does to its resource.
type Op string

// The writes. OpPatch changes some columns of a row, OpPut replaces or creates the resource, OpInsert makes a row whose key
// the database chooses where the body leaves it out.
const (
	OpPatch  Op = "patch"
	OpPut    Op = "put"
	OpDelete Op = "delete"
	// OpCopy points an object to the body of another one, or to a former one of its own.
	OpCopy   Op = "copy"
	OpInsert Op = "insert"
)

// RowRead is a read of one row.
type RowRead struct {
	Row RowName
	Access
	// NumbersAsText renders int8 and numeric values as JSON strings, for clients whose numbers have 53 bits.
	NumbersAsText bool
	// Shown lists the columns that are shown, beside those of the key; nil shows all.
	Shown []string
}

// RowWrite is a fenced write of one row.
type RowWrite struct {
	Op  Op
	Row RowName // without a key for OpInsert
	Access
	If Condition
	// Shown is as in RowRead, for the row that is returned.
	Shown []string
	// Settable lists the columns that the writer may set; nil is all. A put may then insert only: replacing a row resets the
	// columns that it does not name.
	Settable []string
	// NumbersAsText is as in RowRead, for the row that is returned. It is not part of the request's identity.
	NumbersAsText bool
	// Columns are the names in Body, each once; Body is the JSON object as it was sent. Both are empty for a
	// delete.
	Columns []string
	Body    json.RawMessage
}

// Row is a row as it stands after a read or a write.
type Row struct {
	State
	// Made is the key of the row that an OpInsert made, decoded; the State is that of the table's own resource, rows/<table>. Nil
	// when the row is gone since.
	Made []string
	// JSON is the row as one JSON object with every digit that PostgreSQL has; nil when there is no row.
	JSON json.RawMessage
	// Created tells an insert from a replacement; after a read, whether the write of the mark was one. Replayed is an answer that is
	// given again.
	Created, Replayed bool
}
