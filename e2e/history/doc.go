// Package history judges what clients saw of a fencegate under faults.
//
// A client writes a line before the first byte of each request and one after the whole reply (Line). Join makes
// operations of the lines: a request that was repeated with the same token is one operation, from its first call to its
// last return. An operation that ends without knowledge has an unknown outcome.
//
// Two checkers look at the same run from two sides:
//
//   - Run.CheckLeases asks porcupine whether the operations of each lease can have happened one after the other, each
//     between its call and its return, in a register with strictly increasing tokens that is sealed at each grant. It
//     sees what clients see. Only calls about leases whose outcome no client knows are settled by the audit.
//   - Run.CheckLedger holds the audit, which triggers wrote in the order of the commits, and the data that were left
//     against the invariants I1 to I7, and against what clients were told.
//
// A run that fails is shrunk to a short timeline for people (Shrink, Timeline).
package history
