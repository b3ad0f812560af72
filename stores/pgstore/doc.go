// Package pgstore is the ledger in PostgreSQL (schema fence) and the rows that live beside it. It certifies grants,
// admits writes, changes rows and flips object pointers, each in one transaction with the mark (I5).
//
// # How a write is sealed
//
// A grant, a release or a break takes the exclusive advisory lock of its lease; a write takes it shared. Both do so
// in a statement of their own before they look at anything, so that at READ COMMITTED the statements that follow
// see a snapshot taken after the lock. Once a newer grant has been returned, the writes of the older one have
// either committed before it or will be refused (I2). A check in the statement that takes the lock, or at
// REPEATABLE READ, reads an older snapshot and lets a sealed token in; every function that locks therefore checks
// the isolation, and every connection pins it.
//
// # How a write is sent
//
// As one pipeline with one Sync, so in one implicit transaction and one round trip: first the SQL function that
// admits, then the statement that changes the data, which does nothing unless the first admitted. Mark and data are
// two statements because one statement keeps one snapshot: a write that waited in it would move the mark and miss
// the data. A statement that was admitted and changes nothing raises, which undoes the mark with it. Nothing is
// answered before the Sync has been: a result read earlier is not committed yet.
//
// # How grants share a commit
//
// Certificates and ends that arrive while others are being committed are gathered and sent as one statement, fence.settle. It
// takes the locks of their leases in one hash order, and only those that are free: whoever waits for a lock holds up
// nobody else, so a call whose lease is in use goes on alone. A group that fails is tried one by one; of one whose outcome
// nobody knows, nobody is told anything else. An idle store adds no wait.
//
// # How events are read
//
// Events are written in the transaction of what they tell, and read in the order of their transactions. See position for why
// nothing is missed although transactions commit in another order.
//
// # Outcomes
//
// An error that the server reported for the transaction means it changed nothing. A connection lost after the
// pipeline was sent, or a server that ends the session, means nobody knows: fence.CodeOutcomeUnknown. The same write
// with the same token then settles it (I7).
//
// SQLSTATEs of the ledger's own functions begin with FG; docs/guarantees.md lists them.
package pgstore
