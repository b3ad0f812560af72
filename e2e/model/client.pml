/* A client, with the gateway that serves it: acquires, works, asks for more, renews, releases or gives up. */

#ifdef COND
#define MATCH (mark + 1)
#else
#define MATCH 0
#endif

#ifdef MORE
inline more() {
  if :: id != 1 -> goto enough :: else fi;
  if :: first == f && !ended :: else -> goto enough fi;      /* a look at the ledger */
  if :: own[n] == val :: else -> goto enough fi;             /* and at the lease */
#ifdef MORE_NOLOCK
  if :: first == f && !ended :: else -> goto enough fi;
  atomic {
#else
  atomic { IDLE ->
#ifndef MORE_NOMATCH
    if :: first == f && !ended :: else -> goto enough fi;
#endif
#endif
    draw(); blocks = blocks | BIT(c);
#ifdef P_UNIQ
    assert(c > top);
#endif
#ifdef P_ISSUED
    assert(first == f && !ended);                            /* the block went to the grant that asked */
#endif
    top = c; ISSUED(c, f, id); run Write(id, c, 2, MATCH, 0); c = 0 };
enough:
#ifdef WILD
  atomic { if :: c = 1 :: c = 2 :: c = 3 :: c = 4 fi;
           if :: run Write(id, c, 1, MATCH, 0) :: run Write(STRANGER, c, 1, MATCH, 0) fi; c = 0 };
#endif
  skip
}
#endif

#ifdef RENEW
inline renew() {
#ifdef RENEW_NOLOOK
  x = val;
#else
  atomic { if :: first == f && !ended -> x = val :: else -> goto renewed fi };
#endif
  atomic { CHOOSE; if :: own[n] == x -> late = (first != f || ended) :: else -> goto renewed fi };
#if defined(RENEW_NOLOOK) || defined(RENEW_ONELOOK)
  if :: true
#else
  if :: first == f && !ended
#endif
     -> skip
#ifdef P_RENEW
     ; assert(!late)
#endif
     :: else -> drop(x)
  fi;
renewed:
  late = false; x = 0
}
#endif

inline work() {
#ifdef WRITES
#ifdef REPLAY
  if
  :: id == 1 -> atomic {
     run Write(1, f, 1, MATCH, 1);
     run Write(1, f, 2, MATCH, 0);            /* another write with the same token */
     run Write(1, f, 1, MATCH, 0);            /* a copy that is still under way */
     run Write(STRANGER, f, 1, MATCH, 0) }
  :: else -> run Write(id, f, 1, MATCH, 0)
  fi;
#else
  run Write(id, f, 1, MATCH, 0);
#endif
#ifdef MORE
  more();
#endif
#else
  atomic {
    if
    :: GOOD(id, f) && mark <= f ->
#ifdef P_SEAL
       assert(f == newest);
#endif
#ifdef P_RET
       assert(!(returned & BIT(f)));
#endif
       mark = f
    :: else
    fi };
#endif
#ifdef RENEW
  renew();
#endif
  skip
}

#ifdef ACQUIREVALUE
#define FRESH v = a
#define RETAKEN (own[n] == v)
#else
#define FRESH holds++; v = slot*8 + holds
#define RETAKEN false
#endif

proctype Client(byte id, slot) {
  byte k, a, n, F, turn, f, c, x, v, holds; bool had;
  mtype answer;
#ifdef SEQCACHE
  bit session;
#endif
#ifdef COUNTER
  byte counted;
#endif
#ifdef RENEW
  bool late;
#endif
  do
  :: k == NACQ -> break
  :: k < NACQ ->
     k++; a = ACQUIRE; f = 0; turn = 0; FRESH;
again:
#ifndef LATEFLOOR
     atomic { F = first; if :: acq == a && ended -> CHOOSE; goto dropped :: else fi };
#endif
#if defined(DUP) && !defined(NORESUME)
     atomic {                        /* the grant that it was given before, if that holds its lease still */
       CHOOSE;
       if :: acq == a && own[n] == val && v != val -> x = v; v = val :: else -> n = 0; goto takes fi };
     certify(); F = 0;
     if :: answer == GRANTED -> x = 0; goto granted :: else -> v = x; x = 0; n = 0; goto again fi;
takes:
#endif
     atomic {                        /* take; once it is ours, prove that it still is */
       CHOOSE;
       if
       :: own[n] == 0 && !had || own[n] == v && had || RETAKEN -> own[n] = v; had = true; turns++; turn = turns
       :: else ->
          if :: had -> had = false; FRESH :: else fi;            /* lost: a value that has held the lease is not used again */
          n = 0; F = 0; goto again
       fi
#if defined(COUNTER) && !defined(SPLIT)
       ; ctr[n]++; counted = ctr[n]
#endif
     };
#if defined(COUNTER) && defined(SPLIT)
     atomic { ctr[n]++; counted = ctr[n] };
#endif
#ifdef LATEFLOOR
     F = first;
#endif
certificate:
     certify(); F = 0;
     if
     :: answer == VOID ->
#ifdef VOID_NOPROOF
        F = first; goto certificate
#elif defined(VOID_DROPS)
        goto dropped
#elif defined(GIVEUP)
        if :: goto again :: goto givenup fi
#else
        goto again
#endif
     :: answer == ENDED -> goto dropped
     :: answer == GRANTED
     fi;
#ifdef GIVEUP
     if :: skip :: goto givenup fi;
#endif
#ifdef DUP
     if :: skip :: goto lost fi;     /* the next attempt repeats this one */
granted:
#endif
     work();
     end(first == f, first == f);    /* release: the lease goes as the grant's row has it */
     if :: answer == ENDED -> goto dropped :: else -> goto lost fi;
givenup:
#ifdef GIVEUP
#ifdef DROPFIRST
     drop(v);
     end(acq == a && MINE, acq == a && val == v);
     goto lost;
#else
     end(acq == a && MINE, acq == a && val == v);
#endif
#endif
dropped:
     drop(v);
lost:
     answer = 0; n = 0; had = false
  od;
  v = 0; holds = 0
}
