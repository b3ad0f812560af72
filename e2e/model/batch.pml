/* The batches of a gateway, and the steward that does for one what has to be done in the locker. */

inline settle(h, how) { if :: leaving[h] != 0 -> done[leaving[h]] = how; leaving[h] = 0 :: else fi }

inline finishBatch(h) {
  phase[h] = OVER; pushed[h] = false; unproved[h] = false; tenant[h] = 0;
  if :: turn[h] == 0 -> settle(h, UNSEALED); floor[h] = 0 :: else fi
}

inline begin(h, g) { made[g]++; h = g*NHG + made[g]; phase[h] = ENTERING }

/* Those that wait go on under a new hold. */
inline forfeit(h) {
  if
  :: waits[h] != 0 && made[GATEWAY(h)] < NHG ->
     begin(y, GATEWAY(h)); waits[y] = waits[h]; next[h] = y; y = 0
  :: waits[h] != 0 && made[GATEWAY(h)] == NHG -> cut = true
  :: else
  fi;
  waits[h] = 0; finishBatch(h)
}

inline hand(h, loc) {
  PICKONE(y, waits[h]);
  waits[h] = waits[h] & ~BIT(y); turn[h] = y; tval[h] = value[h]; within[h] = loc; y = 0
}

#ifdef P_ORDER
#define PROVED(h) proofs++; proof[h] = proofs
#else
#define PROVED(h) skip
#endif

#ifdef P_VOID
#define DIRECT(h, b) direct[h] = b
#else
#define DIRECT(h, b) skip
#endif

inline entered(h, F) {
  if
  :: own[n] == value[h] && reserved[n] -> phase[h] = QUEUED; pushed[h] = true
  :: own[n] == value[h] && !reserved[n] ->
     phase[h] = HOLDING; floor[h] = F; unproved[h] = false; PROVED(h); DIRECT(h, true);
     if :: waits[h] != 0 -> hand(h, false) :: else fi
  :: own[n] != value[h] && (queue[n] & BIT(h)) -> phase[h] = QUEUED
  :: else
  fi
}

#ifdef PUSH_STAYS
#define PUSHED_TAKEN skip
#else
#define PUSHED_TAKEN pushed[h] = false
#endif
#ifdef NOCLAIM
#define NOTPUSHED && !pushed[h]
#else
#define NOTPUSHED
#endif
#ifdef ENTRYFLOOR
#define CLAIMFLOOR (phase[h] == QUEUED -> floor[h] : first)
#else
#define CLAIMFLOOR first
#endif
/* Compare and extend under the hold's next value. ok, or (again) another value of the hold was found. */
inline goOn(h) {
  if
#ifdef NOCLAIM
  :: own[n] != value[h] && pushed[h] -> pushed[h] = false; ok = true
#endif
  :: own[n] == value[h] ->
#ifdef ONEVALUE
     skip;
#else
     own[n] = own[n] + 1; value[h] = own[n];
#endif
     reserved[n] = false; PUSHED_TAKEN; PROVED(h); ok = true
  :: own[n] != value[h] && HOLD(own[n]) == h NOTPUSHED ->
     value[h] = own[n]; again = true
  :: else
  fi
}

#define RESERVED(h, i) (HOLD(own[i]) == h && reserved[i] && !pushed[h] && \
   (COUNT(own[i]) > COUNT(value[h]) || COUNT(own[i]) == COUNT(value[h]) && phase[h] != HOLDING))
#define SEE(h, i) value[h] = own[i]; pushed[h] = true
#define HANDABLE(h) (phase[h] == HOLDING && !BUSY(h) && !unproved[h] && !pushed[h] && waits[h] != 0)

#ifdef LOST
/* The locker did it, and the gateway does not know. */
#define UNANSWERED(h) lostAnswers++; value[h] = value[h] - 1; ok = false; if :: phase[h] == QUEUED -> pushed[h] = true :: else fi
byte lostAnswers;
#endif

proctype Steward(byte h) {
  byte F, y, x; bool ok, again;
  NODE
enters:
end:
  do
  :: atomic { phase[h] == OVER -> break }
  /* a signal, or a look that finds what a lost one said */
  :: atomic { ALIVE(h) && RESERVED(h, 0) -> SEE(h, 0) }
#ifndef ONENODE
  :: atomic { ALIVE(h) && RESERVED(h, 1) -> SEE(h, 1) }
#endif
  :: atomic { ALIVE(h) && waits[h] == 0 && !BUSY(h) -> finishBatch(h); x = value[h]; goto givesBack }
  /* claim or prove: what was reserved anew was given up for the tenant, if there is one */
  :: atomic { pushed[h] && turn[h] == 0 && waits[h] == 0 && tenant[h] != 0 -> tenant[h] = 0 }
  :: atomic { ALIVE(h) && turn[h] == 0 && waits[h] != 0 && COUNT(value[h]) < MAXCOUNT &&
              (pushed[h] || phase[h] == HOLDING && unproved[h] && tenant[h] == 0) ->
              F = CLAIMFLOOR; tenant[h] = 0 };
     atomic {
       CHOOSE;
       do
       :: goOn(h); if :: again && COUNT(value[h]) < MAXCOUNT -> again = false :: else -> again = false; break fi
       od;
#ifdef LOST
       if :: ok && lostAnswers == 0 -> UNANSWERED(h); settle(h, UNSEALED); F = 0; goto enters :: true fi;
#endif
       if
       :: ok && phase[h] == OVER -> x = value[h]; F = 0; goto givesBack
       :: ok && phase[h] != OVER ->
          phase[h] = HOLDING; pushed[h] = false; floor[h] = F; unproved[h] = false; DIRECT(h, false); behind[n] = SEVERAL(waits[h]);
          if :: waits[h] != 0 -> hand(h, false) :: else fi
       :: !ok && phase[h] == HOLDING -> F = 0; goto lost
       :: !ok && phase[h] < HOLDING -> phase[h] = ENTERING; pushed[h] = false
       :: else
       fi;
       F = 0; ok = false }
  :: atomic { phase[h] == ENTERING && !pushed[h] && waits[h] != 0 -> F = first };
#ifdef ENTRYFLOOR
     floor[h] = F;
#endif
     atomic {
       CHOOSE; enter(h);
       if :: phase[h] == OVER -> x = value[h]; F = 0; goto givesBack :: else -> entered(h, F) fi;
       F = 0 }
#ifdef LOST
  :: atomic { phase[h] == HOLDING && waits[h] != 0 && HOLD(own[0]) == h && own[0] != value[h] && !reserved[0] -> SEE(h, 0) }
#endif
  /* looks: the locker is told whether others wait; the lease is lost; it was passed over; its grant has ended */
#ifndef NOLOOK
  :: atomic { phase[h] == HOLDING && own[0] == value[h] && !reserved[0] && behind[0] != (waits[h] != 0) ->
              behind[0] = (waits[h] != 0) }
  :: atomic { phase[h] == HOLDING && waits[h] != 0 && HOLD(own[0]) != h -> goto lost }
#endif
  :: atomic { phase[h] == QUEUED && !pushed[h] && HOLD(own[0]) != h && !(queue[0] & BIT(h)) -> phase[h] = ENTERING }
#ifndef ONENODE
  :: atomic { phase[h] == HOLDING && own[1] == value[h] && !reserved[1] && behind[1] != (waits[h] != 0) ->
              behind[1] = (waits[h] != 0) }
  :: atomic { phase[h] == HOLDING && waits[h] != 0 && HOLD(own[1]) != h -> goto lost }
  :: atomic { phase[h] == QUEUED && !pushed[h] && HOLD(own[1]) != h && !(queue[1] & BIT(h)) -> phase[h] = ENTERING }
#endif
#ifndef NOLOOK
  :: atomic { ALIVE(h) && tenant[h] != 0 && waits[h] != 0 && first == tenant[h] && ended ->
              floor[h] = tenant[h]; tenant[h] = 0; unproved[h] = true }
#endif
  /* within the gateway, with or without an extension */
  :: atomic { HANDABLE(h) -> hand(h, true); DIRECT(h, false) }
#ifdef EXTEND
  :: atomic { HANDABLE(h) -> CHOOSE; if :: own[n] == value[h] -> behind[n] = SEVERAL(waits[h]); hand(h, true) :: else -> goto lost fi }
#endif
#if NEXP > 0
  /* the tenant's time is over */
  :: atomic { ALIVE(h) && tenant[h] != 0 && waits[h] != 0 && expired < NEXP -> EXPIRES; floor[h] = tenant[h]; tenant[h] = 0 }
  :: atomic { phase[h] == HOLDING && tenant[h] != 0 && waits[h] == 0 && turn[h] == 0 && expired < NEXP ->
              EXPIRES; finishBatch(h); x = value[h]; if :: goto givesBack :: x = 0; break fi }
#endif
  od;
  goto out;
lost:
#ifdef VALUE_AGAIN
  atomic { phase[h] = ENTERING; tenant[h] = 0; unproved[h] = false; settle(h, UNSEALED); goto enters };
#endif
  atomic { if :: phase[h] == HOLDING -> forfeit(h) :: else fi; goto out };
givesBack:
  drop(x, false);
out:
  skip
}

/* A lease that nobody has any more, of value x, goes to the next in its batch; else the batch is over, and x is to be dropped. */
inline leaveOrTend() {
  if
  :: waits[HOLD(x)] != 0 -> x = 0
  :: else -> y = HOLD(x); x = value[y]; finishBatch(y); y = 0
  fi
}
