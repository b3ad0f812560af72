// Package fence holds the rule that fencegate enforces and the words it is told in. It is pure: it knows no
// database, no lock service and no protocol, and imports the standard library only.
//
// A lease is a name that at most one holder has at a time, for a bounded time. It is advisory: it can expire
// under a holder that is paused. A grant is one successful acquisition of a lease, certified in PostgreSQL; it
// carries blocks of tokens. A token is a positive number of at most 15 digits that its holder may spend once on
// each resource the lease protects. A resource is a thing that is written: a row or an object. Its mark is the
// highest token that was accepted for it. The mark survives the deletion of the resource.
//
// # Invariants
//
//   - I1 Monotone: accepted tokens of one resource strictly increase, for ever, across delete and re-create.
//   - I2 Sealed at grant: once a newer grant of a lease has been returned to its holder, no write with a token
//     of an older grant of that lease commits, on any resource the lease protects.
//   - I3 Issued only: a token that no grant issued never changes anything, least of all a mark.
//   - I4 Unique and ordered: two grants never share a token, and a holder whose lease came earlier is never
//     certified after one whose lease came later.
//   - I5 Atomic: mark and data change together or not at all. Every verdict but accepted leaves the mark alone.
//   - I6 No torn object: a reader sees one whole body, never a mix and never an unverified one.
//   - I7 Honest outcomes: a refusal means this attempt changed nothing, accepted means durable, and when neither
//     is known the answer says so; the same request with the same token then settles it.
//   - I8 Clocks do not matter for I1 to I5.
//
// # The rule
//
// [Decide] is the rule: what becomes of a write, given the newest grant of the lease that protects the resource
// and the resource's mark. The ledger holds the same rule in SQL (fence.admit_resource), where it is applied
// under locks; a property test holds the two together.
package fence
