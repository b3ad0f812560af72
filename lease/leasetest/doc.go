// Package leasetest holds what tests of leases share: the conformance suites that every locker and every ledger
// runs, and a reference ledger in memory.
package leasetest
