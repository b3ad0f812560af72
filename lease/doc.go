// Package lease gives out leases whose holders carry fencing tokens.
//
// A lease is a name that at most one holder has at a time, for a bounded time. The [Locker] keeps it and decides
// who may try; the [Ledger] certifies the grant and mints its tokens. The [Manager] joins the two. Only the ledger
// is trusted: the locker may lose its data, fall back to an old copy or run as two primaries, and no token repeats.
//
// # What a lease promises
//
// Nothing about the holder's own view. A holder that is paused wakes up believing in a lease that has passed on.
// What holds is said of tokens: two grants never share one, and a holder whose lease was taken earlier is never
// certified after one whose lease was taken later (I4). Once a successor has its grant, every token of the
// predecessor is void (I2). A holder whose lease expired without a successor may still write: nobody else can.
//
// # How it is kept
//
// An acquire reads the floor, the first token of the newest grant; then it takes the lease; then it asks the ledger
// for a grant that is void unless the floor is still the newest. The order is the whole argument. Let one acquire
// take the lease before another, and let the later one be certified first: the earlier one read its floor before
// its take, so before that certificate, and its own is void. Reading the floor after the take would let a holder
// that pauses between the two be certified after its successor.
//
// A void certificate leaves the lease alone, because another copy of the same acquire (a retry of a client that
// lost a reply) may hold it rightly. The acquire starts again from the floor and proves its lease by taking it with
// the same value. Giving up goes the other way round: first it ends whatever grant the acquire was given, then it
// drops the lease, so that a lease that is free again has no living grant behind it.
//
// The value of a lease is the hash of principal and acquire id. A repeated acquire finds its own lease and its own
// grant; nobody else can.
//
// # The trust window
//
// The remaining time that a holder is told is counted from a monotonic reading taken before the request went to the
// locker, so it errs to the short side. It saves work and gives no safety. It can be zero: the ledger was slow, the
// lease ran out and somebody else has taken it by now. The grant is still told, because it was made; whether its
// tokens are good is for the ledger to say.
//
// # What happens at each failure
//
//   - The locker is down, hung or read-only: acquire, renew and more tokens are unavailable. Grants stay, and
//     their tokens stay good.
//   - The locker loses or repeats its data: somebody else can take a lease that is held. Its grant seals the older
//     one; a certificate from before is void.
//   - The ledger is down: nothing is granted. An acquire that the client can repeat by its id leaves its lease for
//     the repetition, any other drops it.
//   - The reply of a certificate is lost: certifying is idempotent by acquire, and is repeated for a bounded time.
//     What remains unknown is settled by the client's repetition; an acquire that nobody can repeat is ended.
//   - The client goes away: what was begun is finished without it. A grant whose id nobody will learn is ended.
//   - The gateway dies: the lease expires after its TTL. A repetition of the same acquire gets the same grant.
//   - A release ends the grant, then loses the locker: the tokens are void. The next acquire that finds the lease
//     held for an ended grant drops it; so does the repetition of the release.
package lease
