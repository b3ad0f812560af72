/* Acquires and what becomes of their grants. */

#ifdef LOCAL_FRESH
#define LOCALVOID(v) (false)
#elif defined(LOCAL_NOEND)
#define LOCALVOID(v) (val != (v))
#elif defined(LOCAL_BROKEN)
#define LOCALVOID(v) (val != (v) || broken)
#else
#define LOCALVOID(v) (val != (v) || ended)
#endif

#ifdef P_RET
#define RETURNED(f) returned = returned | BIT(f)
#else
#define RETURNED(f) skip
#endif

inline certify() {                   /* a, F, loc, v: answer, and f */
  atomic { IDLE ->
    if
    :: first != 0 && acq == a && ended  -> answer = ENDED
    :: first != 0 && acq == a && !ended -> answer = GRANTED; f = first; val = v
    :: !(first != 0 && acq == a) && first == F && !(loc && LOCALVOID(v)) ->
#ifdef P_ORDER
       assert(proof[h] >= lastproof && (loc || proof[h] > lastproof)); lastproof = proof[h];
#endif
#ifdef P_SELF
       assert(acq != a);
#endif
#ifdef P_EXCL
       assert(!live);
#endif
       first++; f = first; acq = a; val = v; ended = false; broken = false; live = true; answer = GRANTED
    :: else -> answer = VOID
#ifdef P_VOID
       ; assert(direct[h])
#endif
    fi }
}

/* Ends the newest grant if it is the one named; rightly says whether the caller may. x: the value of what has ended, else 0. */
inline endGrant(names, rightly) {
  atomic { IDLE ->
    if
    :: names ->
#ifdef P_END
       assert(rightly);
#endif
       ended = true; x = val; live = false; RETURNED(first)
    :: else -> x = 0
    fi }
}

#ifdef WRITES
proctype Write(byte f) {
  byte t;
  shared++;
  atomic { if :: first == f && !ended && mark <= f -> skip :: else -> shared--; goto out fi };
  atomic {
#ifdef P_SEAL
    assert(f == first);
#endif
#ifdef P_RET
    assert(!(returned & BIT(f)));
#endif
    mark = f; shared-- };
out: skip
}
#endif

#define WAITING(p) ((waits[1] | waits[2] | WAITS34 | WAITS56) & BIT(p))
#define TURN(p) (turn[1] == p || turn[2] == p || TURN34(p) || TURN56(p))
#if NHG > 1
#define WAITS34 waits[3] | waits[4]
#define TURN34(p) turn[3] == p || turn[4] == p
#else
#define WAITS34 0
#define TURN34(p) false
#endif
#if NHG > 2
#define WAITS56 waits[5] | waits[6]
#define TURN56(p) turn[5] == p || turn[6] == p
#else
#define WAITS56 0
#define TURN56(p) false
#endif
#define waiting (waits[1] | waits[2] | WAITS34 | WAITS56)
#define LEAVE(p, h) waits[h] = waits[h] & ~BIT(p)

/* The last batch of a gateway that is alive, if there is one. */
#if NHG == 1
#define LAST(x, g) if :: ALIVE(g*NHG+1) -> x = g*NHG+1 :: else -> x = 0 fi
#elif NHG == 2
#define LAST(x, g) if :: ALIVE(g*NHG+2) -> x = g*NHG+2 :: !ALIVE(g*NHG+2) && ALIVE(g*NHG+1) -> x = g*NHG+1 :: else -> x = 0 fi
#else
#define LAST(x, g) if :: ALIVE(g*NHG+3) -> x = g*NHG+3 :: !ALIVE(g*NHG+3) && ALIVE(g*NHG+2) -> x = g*NHG+2 \
                      :: !ALIVE(g*NHG+3) && !ALIVE(g*NHG+2) && ALIVE(g*NHG+1) -> x = g*NHG+1 :: else -> x = 0 fi
#endif
/* Others stand in the queue, from the other gateway. */
#define LOWER (BIT(NHG+1) - 2)
#define FOLLOWED(g) (g == 0 && (queue[0] & ~LOWER) || g == 1 && (queue[0] & LOWER))

#if defined(GIVEUP) || defined(DUP) || defined(LOST)
#define UNDO
#endif
#ifdef LATEFLOOR
#define FLOOR (within[h] -> floor[h] : first)
#elif defined(LOCAL_FRESH)
#define FLOOR (within[h] -> first : floor[h])
#else
#define FLOOR floor[h]
#endif
/* Whoever has the turn takes it up. */
#define GETS F = FLOOR; loc = within[h]; v = tval[h]; floor[h] = 0; within[h] = false; tval[h] = 0

proctype Acquire(byte p, a, g) {
  byte h, F, f, v, x, y; bool loc, far, ok, again; mtype answer;
  NODE
begins:
  if :: first != 0 && acq == a && ended -> goto out :: else fi;
#ifdef DUP
  if
  :: atomic { acq == a && first != 0  && own[0] == val && !reserved[0] -> v = val; h = HOLD(v); F = first };
     certify();
     if :: answer == GRANTED -> goto granted :: answer == ENDED -> goto out :: answer == VOID -> goto begins fi
  :: else
  fi;
#endif
  atomic {
    LAST(h, g);
    if
    :: h != 0 -> waits[h] = waits[h] | BIT(p)
    :: (h == 0 || FOLLOWED(g)) && made[g] < NHG ->
       begin(h, g); waits[h] = BIT(p)
    :: h == 0 && made[g] == NHG -> cut = true; goto out
    fi;
    h = 0 };
wait:
  if
  :: atomic { turn[1] == p -> h = 1; GETS }
  :: atomic { turn[2] == p -> h = 2; GETS }
#if NHG > 1
  :: atomic { turn[3] == p -> h = 3; GETS }
  :: atomic { turn[4] == p -> h = 4; GETS }
#endif
#if NHG > 2
  :: atomic { turn[5] == p -> h = 5; GETS }
  :: atomic { turn[6] == p -> h = 6; GETS }
#endif
#ifdef GIVEUP
  :: atomic { WAITING(p) -> LEAVE(p, 1); LEAVE(p, 2);
#if NHG > 1
       LEAVE(p, 3); LEAVE(p, 4);
#endif
       goto out }
#endif
  :: atomic { cut && !WAITING(p) && !TURN(p) -> goto out }
  fi;
certificate:
  certify(); atomic { F = 0; loc = false };
  if
  :: answer == GRANTED
#ifdef UNDO
  :: answer == ENDED -> goto undone
#endif
  :: answer == VOID ->
#ifdef GIVEUP
     if :: true :: goto undone fi;
#endif
     atomic { F = first;
#ifdef DUP
       if :: first != 0 && acq == a && ended -> goto undone :: else fi
#endif
     };
     atomic {
       CHOOSE;
       do
       :: COUNT(value[h]) < MAXCOUNT -> goOn(h); if :: again -> again = false :: else -> break fi
       :: else -> cut = true; goto out
       od;
#ifdef LOST
       if :: ok && lostAnswers == 0 -> UNANSWERED(h); goto undone :: true fi;
#endif
       if
       :: ok -> ok = false; v = value[h]; goto certificate
       :: else ->                    /* lost: waits again, before those behind it */
          F = 0; settle(h, UNSEALED); turn[h] = 0;
          x = h;
          do :: phase[x] == OVER && next[x] != 0 -> x = next[x] :: else -> break od;
          if
          :: phase[x] == OVER || phase[x] == HOLDING && x != h ->
             if :: made[g] < NHG -> begin(y, g); waits[y] = BIT(p); y = 0 :: else -> cut = true; x = 0; goto out fi
          :: else ->
             waits[x] = waits[x] | BIT(p);
             if :: x == h -> forfeit(x) :: else fi
          fi;
          x = 0; h = 0; goto wait
       fi }
  fi;
#ifdef GIVEUP
  if :: true :: goto undone fi;
#endif
  atomic {
    settle(h, SEALED); answer = 0; v = 0;
    if :: turn[h] == p ->
       turn[h] = 0; if :: phase[h] != OVER -> tenant[h] = f :: else -> floor[h] = 0 fi :: else fi;
  };
#ifdef DUP
granted:
#endif
#ifdef WRITES
  run Write(f);
#elif defined(P_RET)
  atomic { if :: first == f && !ended && mark <= f ->
                 assert(!(returned & BIT(f)));
                 mark = f
              :: else fi };
#endif
#ifdef RENEW
  run Renew(f, a);
#endif
#ifdef TWICE
  if :: p == 1 -> run Release(p+4, f, h, g) :: else fi;
#endif
  atomic { run Release(p, f, h, g); goto out };
#ifdef UNDO
undone:
  endGrant(first != 0 && acq == a && val == v, acq == a);
  x = 0;
  atomic {
    settle(h, UNSEALED);
    if
    :: turn[h] == p ->
       turn[h] = 0;
       if
       :: phase[h] != OVER -> unproved[h] = true; x = (h << 3); leaveOrTend()
       :: else
       fi
    :: else
    fi };
  drop(x, false);
#endif
out:
  atomic { F = 0; f = 0; v = 0; h = 0; loc = false; answer = 0 }
}
