/* A write: checked against grant and mark, in steps. */

/* What the rule says of the grant alone. */
#ifdef ONESTMT
#define FIRST sfirst
#define ACQ sacq
#define OVER sended
#define BLOCKS sblocks
#else
/* The shared lock is held: the grant does not change between its reading and its use. */
#define FIRST first
#define ACQ acq
#define OVER ended
#define BLOCKS blocks
#endif
#ifdef RANGE
#define MEMBER(t) (BIT(t) <= BLOCKS)
#elif defined(NOBLOCKS)
#define MEMBER(t) (true)
#else
#define MEMBER(t) (BLOCKS & BIT(t))
#endif
#ifdef NOFOREIGN
#define OWNS(p) (true)
#else
#define OWNS(p) (PRINCIPAL(ACQ) == p)
#endif
#ifdef NOSEAL
#define GOOD(p, t) (true)
#else
#define GOOD(p, t) (FIRST != 0 && t >= FIRST && MEMBER(t) && OWNS(p) && !OVER)
#endif

#ifdef NODIGEST
#define SAMEDIGEST (true)
#else
#define SAMEDIGEST (mdigest == d)
#endif
#ifdef NOPRINCIPAL
#define SAMEPRINCIPAL (true)
#else
#define SAMEPRINCIPAL (mprincipal == p)
#endif
#define REPLAY_OF (mark == t && SAMEPRINCIPAL && SAMEDIGEST)
#ifdef REPLAYLATE
#define REPLAYS (REPLAY_OF && GOOD(p, t))
#else
#define REPLAYS REPLAY_OF
#endif
#define MATCHES (m == 0 || m == mark + 1)
#ifdef NOMARK
#define ABOVE (true)
#else
#define ABOVE (mark < t)
#endif
#if defined(COND_NOCMP) || defined(ONECTE)
#define UNMOVED (true)
#else
#define UNMOVED (m == 0 || mark == seen)
#endif
#define WRITE(t, p, d) ((t)*64 + (p)*4 + (d))
#ifdef NOSHARE
#define UNLOCK
#else
#define UNLOCK shared--
#endif

inline replayed() {
#ifdef P_REPLAY
  assert(data == WRITE(t, p, d));
#endif
#ifdef REAPPLY
#ifdef P_SEAL
  assert(GRANT(t) == newest);
#endif
  data = WRITE(t, p, d);
#endif
  skip
}

inline refused() {
#ifdef P_SETTLE
  assert(!(mark == t && mprincipal == p && mdigest == d));
#endif
  skip
}

/* One write, sent again up to tries times. m is the mark that it must find, plus 1; 0: any. */
proctype Write(byte p, t, d, m, tries) {
  byte seen;                         /* the mark as its last statement read it */
#ifdef ONESTMT
  byte sfirst, sacq; bool sended; int sblocks;
#endif
send:
#ifdef ONESTMT
  atomic { sfirst = first; sacq = acq; sended = ended; sblocks = blocks };
#endif
#ifndef NOSHARE
  shared++;
#endif
check:
  atomic {
    seen = mark;
    if
    :: REPLAYS -> replayed(); UNLOCK; goto done
    :: !REPLAYS && GOOD(p, t) && ABOVE && MATCHES -> skip
    :: else -> refused(); UNLOCK; goto done
    fi };
  atomic { !mlock ->                 /* raise: waits for a write that has raised and not ended */
    if
    :: ABOVE && UNMOVED -> mlock = true
#ifdef NORECHECK
    :: else -> refused(); UNLOCK; goto done
#else
    :: else -> goto check            /* a new statement decides */
#endif
    fi };
  if
  :: atomic {
#ifdef P_SEAL
       assert(GRANT(t) == newest);
#endif
#ifdef P_RET
       assert(!(returned & BIT(GRANT(t))));
#endif
#ifdef P_ISSUED
       assert(ISSUEE(t) == p);
#endif
#ifdef P_MONO
       assert(t > accepted);
#endif
#ifdef P_MATCH
       assert(MATCHES);
#endif
#ifdef ONECTE
       if :: mark == seen -> data = WRITE(t, p, d) :: else fi;   /* its snapshot does not have the row that it waited for */
#else
       data = WRITE(t, p, d);
#endif
#ifdef FORGET
       if :: d == 2 -> mark = 0 :: else -> mark = t fi;          /* a delete takes the mark along */
#else
       mark = t;
#endif
       mdigest = d; mprincipal = p; accepted = t;
#ifdef P_ATOM
       assert(data == WRITE(mark, mprincipal, mdigest));
#endif
       mlock = false; UNLOCK }
  :: atomic { mlock = false; UNLOCK }                            /* undone */
  fi;
done:
  seen = 0;
  if :: tries > 0 -> tries--; goto send :: else fi
}

