package history

import "time"

// Run is all that is known of a run.
type Run struct {
	Ops    []*Op
	Audit  Audit
	Faults []Fault
	// Finals are what was read of every resource when all was over.
	Finals []Final
	// Start is when the run began; times are shown relative to it.
	Start int64
}

// Audit is what triggers wrote down in the ledger's database. Seq is drawn inside the transaction: grants, ends and more
// tokens hold the lease's lock alone, and writes share it, so that for one lease the order of Seq between them is the
// order of their commits. Two writes of one resource are ordered by the mark's row lock in the same way.
type Audit struct {
	Grants []GrantRow
	Marks  []MarkRow
	Data   []DataRow
	Blobs  []BlobRow
}

// GrantRow is the newest grant of a lease as one transaction left it.
type GrantRow struct {
	Seq       int64
	At        int64 // by the clock of the operations
	Lease     string
	First     int64
	Blocks    []Block
	Principal string
	Holder    string
	Ended     string // why; empty while it has not ended
}

// Block is tokens from First to Last.
type Block struct{ First, Last int64 }

// MarkRow is a mark that was raised.
type MarkRow struct {
	Seq       int64
	Xact      string
	Resource  string
	Lease     string
	Token     int64
	Principal string
}

// DataRow is a row or object pointer that was changed.
type DataRow struct {
	Seq      int64
	Xact     string
	Resource string
	// Value is what the write wrote; empty when the resource is gone.
	Value string
	// Token is the one that the data themselves name; 0 when the resource is gone.
	Token int64
	// Blob is the object's.
	Blob string
}

// BlobRow is a state that a blob went into.
type BlobRow struct {
	Seq       int64
	Blob      string
	From, To  string
	Deletions int
}

// Final is a resource as it was read when all was over.
type Final struct {
	Resource string
	Mark     int64
	Value    string // empty when there is nothing
	Problem  string // why it could not be read whole
}

// Fault is one that was done to the run.
type Fault struct {
	From, To int64
	What     string
	// Lossy says that Redis lost or brought back leases, or that two of them gave them out: from then on until To a
	// lease may have had two holders.
	Lossy bool
	// Small faults are too many to be shown in a timeline.
	Small bool
}

// Violation is a broken invariant.
type Violation struct {
	Invariant string // I1 to I7
	Lease     string // empty where it concerns none
	Text      string
}

func (v Violation) String() string { return v.Invariant + ": " + v.Text }

// seconds shows a time.
func (r *Run) seconds(at int64) float64 {
	if at == Forever {
		return -1
	}
	return time.Duration(at - r.Start).Seconds()
}

// resources are the two things that each lease protects, in the order in which the model keeps them.
const (
	rowPrefix    = "rows/"
	objectPrefix = "objects/"
)
