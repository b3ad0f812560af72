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
// After a void certificate the acquire reads the floor anew, proves its lease by extending it, and asks again. Giving up
// goes the other way round: first it ends whatever grant it was given, then it gives the lease on, so that a lease that is
// free again has no living grant behind it.
//
// The value of a lease names a hold, the time for which one gateway keeps it, and counts what came between those who had the
// lease in it ([NextValue]). The grant has the value, too: by it the grant's lease is found from any gateway, and nobody else's is
// given up for it, however late. A repeated acquire finds its grant in the ledger by the hash of principal
// and acquire id, and its lease by the grant.
//
// # Waiting
//
// Whoever waits stands in a queue: below, one in each gateway; above, the locker's, whose entries are gateways' batches of
// waiters. They are served in the order in which they came, wherever they came to. A lease that becomes free goes to the first
// entry by a push: it is reserved for that entry for [Window], its gateway reads the floor, then claims, then certifies. Counted
// from the claim, the order is kept as for a take; counted from the push it could not be, with two primaries.
//
// Within one gateway a lease is handed on without a word to the locker, while nobody else stands before the next one. His
// certificate has the previous grant's first token as its floor, so that anything granted elsewhere voids it; it is void, too,
// when the previous grant has ended, because its lease was given up then. It also seals the previous grant, so that a
// release waits for it in place of a commit of its own.
//
// A waiter that has gone costs nothing when its gateway knows, and [Window] when its gateway is stopped. Those that were passed
// over stand at their old place once they are back. Nobody is given a lease that began to run while he waited.
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
//   - The ledger is down: nothing is granted, and the lease goes on to the next.
//   - The reply of a certificate is lost: certifying is idempotent by acquire, and is repeated for a bounded time.
//     What remains unknown is settled by the client's repetition; an acquire that nobody can repeat is ended.
//   - The client goes away: what was begun is finished without it. A grant whose id nobody will learn is ended.
//   - A gateway dies: the leases that it took run out, or are renewed and released through another. Those that waited in it are
//     skipped. A repetition of the same acquire gets the same grant.
//   - A gateway is stopped: the same, after a window. When it runs again its claims fail, and its certificates are void.
//   - A release ends the grant, then loses the locker: the tokens are void. Whoever finds the lease held for an ended
//     grant for a second takes it away; so does the repetition of the release.
//   - The locker is down when a lease is given up, or its answer is lost: it is told again until it has heard, and entries that
//     may arrive late are given up several times. A lease that is held for no grant is taken away by who comes and asks.
//   - A signal is lost: who waits looks by himself every few seconds, and when the lease must have run out.
package lease
