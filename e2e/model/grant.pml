/* The ledger's side of a lease, and the locker. */

inline draw() {                      /* c = the next block */
#ifdef SEQCACHE
  if :: session = 0 :: session = 1 fi;
  if :: next[session] == last[session] -> next[session] = seq; seq = seq + 2; last[session] = seq :: else fi;
  next[session]++; c = next[session]
#elif defined(COUNTER)
  c = counted
#else
  seq++; c = seq
#endif
}

#ifdef NOIDCHECK
#define REPEATED (false)
#else
#define REPEATED (first != 0 && acq == a)
#endif
#ifdef NOFLOOR
#define CURRENT (true)
#elif defined(COUNTER)
#define CURRENT (first < counted)
#else
#define CURRENT (first == F)
#endif

inline certify() {                   /* answer, and f: the first token of the grant */
  atomic { IDLE ->
    if
    :: REPEATED && ended  -> answer = ENDED
    :: REPEATED && !ended -> answer = GRANTED; f = first; val = v
    :: !REPEATED && CURRENT ->
       draw();
#ifdef P_UNIQ
       assert(c > top);
#endif
#ifdef P_ORDER
       assert(turn > lastturn);
#endif
#ifdef P_SELF
       assert(acq != a);
#endif
#ifdef P_EXCL
       assert(first == 0 || ended);
#endif
#ifdef P_ONCE
       assert(!(once & BIT(a))); once = once | BIT(a);
#endif
       first = c; acq = a; val = v; ended = false; blocks = BIT(c);
       newest = c; top = c; lastturn = turn; ISSUED(c, c, id);
       answer = GRANTED; f = c
    :: else -> answer = VOID
    fi; c = 0 }
}

#ifdef END_NOLOCK
#define ENDABLE (true)
#else
#define ENDABLE IDLE
#endif
#ifdef END_ANYHOLD
#define MINE (true)
#else
#define MINE (val == v)
#endif
#ifdef END_NOMATCH
#define NAMES(g) (first != 0)
#else
#define NAMES(g) (g)
#endif

/* Ends the newest grant if it is the one named; rightly says whether the caller may. answer: whether it was; x: which grant has
 * ended; v: the hold that its row has. */
inline end(names, rightly) {
  atomic { ENDABLE ->
    if
    :: NAMES(names) ->
#ifdef P_END
       assert(rightly);
#endif
       ended = true; answer = ENDED; x = first; v = val
    :: else -> answer = VOID
    fi };
  if :: answer == ENDED -> returned = returned | BIT(x); x = 0 :: else fi
}

/* ---- The locker ---- */

#ifdef DROP_NOCMP
#define HOLDS(v) (true)
#else
#define HOLDS(v) (own[n] == v)
#endif

inline drop(v) { atomic { if :: HOLDS(v) -> own[n] = 0 :: else fi } }

