/* fencegate's protocol as it is built: how a lease is granted, and how a write is checked against the grant.
 *
 * One lease, one resource that it protects, and every way in which the parties can overtake each other. A process
 * may stand still between any two statements, for ever if need be: a pause, a crash and a kill are all the same
 * here. What stands in one atomic block is one statement or transaction of PostgreSQL, or one script of Redis.
 *
 * Ledger     the grant row changes only under the lease's exclusive lock, which waits for the writes that hold the
 *            lock shared (IDLE). A block of 1000 tokens is one number here: what matters is which grant drew it.
 * Locker     two primaries may be alive at once, a lease may expire at any moment (Expire), a node may lose its
 *            data or fall back to an old copy (Faults). Waiters poll here; handoff.pml has the queue.
 * Acquire    floor, take, certify. The lease is kept under the value of a hold, which stands in the grant's row and is not used
 *            again once it is lost. A void certificate keeps the lease and starts again from the floor.
 * Write      shared lock, replay, grant, mark, raise (a row lock), data, commit or undo.
 *
 * FEATURES (-D...; none is on by default)
 *   WRITES   writes in steps, beside their client; without it a write is one step
 *   REPLAY   two writes spend one token, each may be sent again; somebody else repeats them too   (with WRITES)
 *   MORE     client 1 asks for more tokens                                                        (with WRITES)
 *   WILD     client 1 or a stranger tries any token; another lease draws a block too              (with MORE)
 *   COND     writes carry If-Match                                                                (with WRITES)
 *   RENEW    a holder renews         BREAK    an admin ends the newest grant
 *   DUP      client 1 runs twice with one acquire id, and a lost reply makes a client repeat its own
 *   GIVEUP   an acquire gives up: after a void certificate, or because the reply to a good one was lost
 *   ONENODE  one primary
 * BOUNDS     NC clients, NACQ attempts of each, NEXP expiries (9: no bound), NFAULT losses and fall-backs
 *
 * PROPERTIES (P_ALL: those from P_UNIQ to P_RENEW)
 *   P_UNIQ    tokens are unique, and a later grant's are higher (I4)
 *   P_ORDER   a holder whose lease was taken, or proved, earlier is never certified after one of a later lease (I4)
 *   P_SEAL    no write with a token of an older grant commits once a newer one was certified (I2)
 *   P_RET     no write of a grant commits once its release, break or abandonment has returned
 *   P_ISSUED  an accepted token was issued, by this lease and to this principal (I3)
 *   P_MONO    accepted tokens strictly increase (I1)
 *   P_ATOM    mark and data change together (I5)
 *   P_MATCH   a conditional write finds the mark that it named
 *   P_REPLAY  a write that is answered as replayed is what stands there
 *   P_SETTLE  a committed write whose token is still the mark is answered as replayed, never refused (I7)
 *   P_END     a grant is ended by its own release, its own acquire or a break, by nothing else
 *   P_SELF    a grant never replaces one of the same acquire
 *   P_RENEW   no renewal succeeds that extended the lease of a grant that had ended or was superseded
 *   P_EXCL    nobody is granted a lease while another grant lives; only where no lease expires or is lost
 *   P_ONCE    one grant per acquire id; not promised (fail.txt)
 *
 * SWITCHES that break the protocol stand in fail.txt, each with the property that falls.
 */
#ifndef NC
#define NC 2
#endif
#ifndef NACQ
#define NACQ 1
#endif
#ifndef NEXP
#define NEXP 9
#endif
#ifndef NFAULT
#define NFAULT 0
#endif
#ifdef P_ALL
#define P_UNIQ
#define P_ORDER
#define P_SEAL
#define P_RET
#define P_ISSUED
#define P_MONO
#define P_ATOM
#define P_MATCH
#define P_REPLAY
#define P_SETTLE
#define P_END
#define P_SELF
#define P_RENEW
#endif
#define MAXTOKEN 16
#define STRANGER 9                   /* a principal that is never granted anything */
#define BIT(i) (1 << (i))
mtype = { VOID, GRANTED, ENDED };

/* Ledger: the newest grant, the sequence of blocks, the mark. */
byte first;                          /* the grant's first token; 0: the lease was never granted */
byte acq, val; bool ended; int blocks; /* its acquire, the value of its hold; its blocks, a bit each */
byte seq;
byte shared;                         /* writes that hold the lease's lock */
byte mark, mdigest, mprincipal; bool mlock;
#ifdef SEQCACHE
byte next[2], last[2];
#endif
/* Locker: per node the value that holds the lease, and the copy that it may fall back to. */
byte own[2], old[2];
#ifdef COUNTER
byte ctr[2], oldctr[2];
#endif
/* What only the properties look at. */
byte turns, lastturn;                /* takes so far; the take behind the newest grant */
byte newest, top;                    /* the newest grant, by first token; the highest token issued */
int returned, once;                  /* grants whose end has returned; acquires that were granted */
byte accepted; int data;             /* the highest token accepted; the write that stands in the resource */
#ifdef MORE
byte grants[MAXTOKEN], issuees[MAXTOKEN]; /* by token: its grant, and the principal it was issued to */
#define GRANT(t) grants[t]
#define ISSUEE(t) issuees[t]
#define ISSUED(t, g, p) grants[t] = g; issuees[t] = p
#else
#define GRANT(t) (t)
#define ISSUEE(t) PRINCIPAL(acq)
#define ISSUED(t, g, p) skip
#endif
#ifdef DUP
#define ACQUIRE (id)
#else
#define ACQUIRE (id + (k-1)*NC)
#endif
#define PRINCIPAL(a) (((a)-1)%NC + 1)
#define IDLE (shared == 0)
#ifdef ONENODE
#define CHOOSE n = 0
#else
#define CHOOSE if :: n = 0 :: n = 1 fi
#endif

#include "grant.pml"
#include "write.pml"
#include "client.pml"
#include "faults.pml"

init {
  byte i;
  atomic {
    for (i : 1 .. NC) { run Client(i, i) };
#ifdef DUP
    run Client(1, NC+1);
#endif
#ifdef BREAK
    run Admin();
#endif
#ifdef WILD
    run OtherLease();
#endif
#if NFAULT > 0
    run Faults();
#endif
    run Expire()
  }
}
