/* How a lease is handed on, as it is built: by push, through the locker's queue, and within a gateway.
 *
 * One lease, two gateways. fencegate.pml has what a grant is worth; here a certificate has what hand-off adds. A process may
 * stand still between any two statements. What stands in one atomic block is one transaction of PostgreSQL, one script of the
 * locker, or what a gateway does under its mutex.
 *
 * Value      a byte: a hold, and a count that goes up whenever something comes between two that have the lease in turn. A
 *            hold is made by one gateway and never used again once it is over.
 * Locker     per node whose the lease is, whether it is only reserved, whether its note says that others wait behind it,
 *            and the queue: a set, which covers every order.
 * Batch      those that wait in one gateway behind one hold. Its steward enters, claims, proves, looks and hands on.
 * Push       floor, claim (compare and extend), certify. Whoever takes a free lease reads the floor before.
 * Within     the next one's floor is the first token of the one before. The certificate is void, too, if that one has ended
 *            or the newest grant has another value.
 * Release    with others behind: it hands on, and returns once a grant has sealed the released one; else it ends the grant,
 *            then drops its value. Any gateway may be asked.
 *
 * FEATURES (-D...; none is on by default)
 *   VIA      any gateway may be asked to release or break          GIVEUP   acquires are cancelled, at any point
 *   BREAK    an admin breaks a grant                               DUP      acquire 1 has a copy in the second gateway
 *   TWICE    acquire 1 releases twice                              AGAIN    one drop arrives twice, at any time
 *   RENEW    holders renew, through any gateway                    EXTEND   the lease may be extended for the next one here
 *   SUSPECT  a gateway drops a lease that is held for a grant      LOST     the answer to one claim or proof is lost
 *            that has ended                                        WRITES   writes in steps
 *   ONENODE  one node
 * BOUNDS    A0, A1 acquires in each gateway; NHG holds of each; NEXP expiries (9: no bound); NPASS reservations that pass
 *           unclaimed; NFAULT losses and fall-backs of a node's data
 *
 * PROPERTIES (P_ALL: those from P_ORDER to P_SELF)
 *   P_ORDER   a holder whose lease was taken, claimed or proved earlier is never certified after a later one's (I4)
 *   P_SEAL    no write of an older grant commits once a newer one was certified (I2)
 *   P_RET     no write of a grant commits once its release or break has returned, the release that the next one seals included
 *   P_END     a grant is ended by its own release, its own acquire or a break, by nothing else
 *   P_SELF    a grant never replaces one of the same acquire
 *   P_EXCL    nobody is granted a lease while another grant lives; only where no lease expires or is lost
 *   P_VOID    a lease that was handed on, by push or within a gateway, is never certified in vain; only where nothing is lost,
 *             broken or given up
 *   P_SERVED  when nothing moves any more nobody waits, and the lease is free; only where no lease expires
 *
 * SWITCHES that break the protocol stand in fail.txt.
 */
#ifndef A0
#define A0 2
#endif
#ifndef A1
#define A1 1
#endif
#ifndef NHG
#define NHG 2
#endif
#ifndef NEXP
#define NEXP 9
#endif
#ifndef NPASS
#define NPASS 1
#endif
#ifndef NFAULT
#define NFAULT 0
#endif
#ifdef P_ALL
#define P_ORDER
#define P_SEAL
#define P_RET
#define P_END
#define P_SELF
#endif
#define BIT(i) (1 << (i))
#define NA (A0 + A1)
#define NH (2*NHG)
#define HOLD(v) ((v) >> 3)
#define COUNT(v) ((v) & 7)
#define MAXCOUNT 6
#define GATEWAY(h) ((h) > NHG)
mtype = { VOID, GRANTED, ENDED };
#define ENTERING 1
#define QUEUED 2
#define HOLDING 3
#define OVER 4
#define SEALED 1
#define UNSEALED 2

/* Ledger */
byte first, acq, val; bool ended, broken;
byte shared, mark;
/* Locker, per node: whose the lease is, and the copy that it may fall back to. */
byte own[2], queue[2]; bool reserved[2], behind[2];
#if NFAULT > 0
byte own0[2], queue0[2]; bool reserved0[2], behind0[2];
#endif
/* Gateways: a batch per hold. */
byte made[2];
byte phase[NH+1], value[NH+1], waits[NH+1];
byte turn[NH+1], tval[NH+1], tenant[NH+1], floor[NH+1]; /* who is being granted it, under what; the grant that has it, by first token */
bool within[NH+1], pushed[NH+1], unproved[NH+1];
byte leaving[NH+1];                  /* the release that waits for the turn's certificate */
byte next[NH+1];
byte done[9];                        /* by release: how it was handed on */
/* What only the properties look at. */
byte proofs, lastproof, proof[NH+1];
bool live;                           /* the newest grant's holder has neither released nor lost it */
bool cut;                            /* somebody would need one more hold than there are */
int returned;
#ifdef P_VOID
bool direct[NH+1];                  /* whoever has the turn took the lease, and nobody handed it to him */
#endif
byte expired, passed;

#define ALIVE(h) (phase[h] >= ENTERING && phase[h] <= HOLDING)
#define BUSY(h) (turn[h] != 0 || tenant[h] != 0)
#define SEVERAL(s) (((s) & ((s)-1)) != 0)
#define IDLE (shared == 0)
#ifdef ONENODE
#define CHOOSE skip
#define NODE
#define AT0 skip
#define n 0
#else
#define CHOOSE if :: n = 0 :: n = 1 fi
#define NODE byte n;
#define AT0 n = 0
#endif

#include "queue.pml"
#include "batch.pml"
#include "turn.pml"
#include "release.pml"

init {
  byte i;
  atomic {
    for (i : 1 .. NH) { value[i] = i << 3; run Steward(i) };
    for (i : 1 .. A0) { run Acquire(i, i, 0) };
#if A1 > 0
    for (i : A0+1 .. NA) { run Acquire(i, i, 1) };
#endif
#ifdef DUP
    run Acquire(NA+1, 1, 1);
#endif
#ifdef BREAK
    run Release(0, 0, 0, 1);
#endif
#ifdef SUSPECT
    run Suspect(1);
#endif
#if NEXP > 0
    run Expire();
#endif
#if NFAULT > 0
    run Faults();
#endif
    run Pass();
#ifdef P_SERVED
    run Watch()
#endif
  }
}
