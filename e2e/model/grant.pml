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
#ifdef END_NOMATCH
#define NAMES(g) (first != 0)
#else
#define NAMES(g) (g)
#endif

inline end(names) {                  /* answer: whether it is the one named; x: which grant has ended */
  atomic { ENDABLE ->
    if
    :: NAMES(names) ->
#ifdef P_END
       assert(names);
#endif
       ended = true; answer = ENDED; x = first
    :: else -> answer = VOID
    fi };
  if :: answer == ENDED -> returned = returned | BIT(x); x = 0 :: else fi
}

/* ---- The locker ---- */

#ifdef DROP_NOCMP
#define HOLDS(a) (true)
#else
#define HOLDS(a) (own[n] == a)
#endif

inline drop(a) { atomic { if :: HOLDS(a) -> own[n] = 0 :: else fi } }

