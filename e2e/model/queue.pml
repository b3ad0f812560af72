/* The locker, with its queue: what its scripts do on node n (y is free for use), drops that are under way, time and faults. */

/* Any of a set of holds, or of acquires. */
#define OR(x, s, i) :: (s) & BIT(i) -> x = i
#if NHG == 1
#define PICKHOLD(x, s) if OR(x, s, 1) OR(x, s, 2) fi
#elif NHG == 2
#define PICKHOLD(x, s) if OR(x, s, 1) OR(x, s, 2) OR(x, s, 3) OR(x, s, 4) fi
#else
#define PICKHOLD(x, s) if OR(x, s, 1) OR(x, s, 2) OR(x, s, 3) OR(x, s, 4) OR(x, s, 5) OR(x, s, 6) fi
#endif
#ifdef DUP
#define PICKONE(x, s) if OR(x, s, 1) OR(x, s, 2) OR(x, s, 3) OR(x, s, 4) fi
#else
#define PICKONE(x, s) if OR(x, s, 1) OR(x, s, 2) OR(x, s, 3) fi
#endif

inline handOn() {                    /* nobody holds it: reserved for one that waits */
  if
  :: queue[n] != 0 ->
     PICKHOLD(y, queue[n]);
     queue[n] = queue[n] & ~BIT(y); own[n] = value[y]; reserved[n] = true; behind[n] = true; y = 0
  :: else -> own[n] = 0; reserved[n] = false; behind[n] = false
  fi
}

inline enter(h) {
  if :: own[n] == 0 && (queue[n] & ~BIT(h)) != 0 -> handOn() :: else fi;
  if
  :: own[n] == 0 ->
     own[n] = value[h]; reserved[n] = false; behind[n] = SEVERAL(waits[h]); queue[n] = queue[n] & ~BIT(h)
  :: own[n] != 0 && own[n] != value[h] && waits[h] != 0 -> queue[n] = queue[n] | BIT(h)
  :: else
  fi
}

#ifdef DROP_NOCMP
#define NAMED(v) (HOLD(own[n]) == HOLD(v))
#elif defined(DROP_VALUE)
#define NAMED(v) (own[n] == v)
#else /* a gateway drops all values under which its own hold may stand */
#define NAMED(v) (own[n] == v || !far && HOLD(own[n]) == HOLD(v))
#endif

/* far: the gateway that drops is not the one that made the value. */
inline dropped(v, far) {
  if :: value[HOLD(v)] == v -> queue[n] = queue[n] & ~BIT(HOLD(v)) :: else fi;
  if
  :: NAMED(v) && far && behind[n] -> own[n] = own[n] + 1; reserved[n] = true
  :: NAMED(v) && !(far && behind[n]) || own[n] == 0 -> handOn()
  :: else
  fi
}

#ifdef AGAIN
#define REPEAT(v, far) if :: atomic { late == 0 -> late++ }; run Late(v, far) :: true fi
byte late;
proctype Late(byte v; bool far) {
  byte y;
  NODE
  atomic { CHOOSE; dropped(v, far) }
}
#else
#define REPEAT(v, far) skip
#endif

inline drop(v, far) {
  if :: v != 0 -> REPEAT(v, far); atomic { CHOOSE; dropped(v, far); v = 0 } :: else fi
}

/* A reservation that is not claimed goes on to the next. */
proctype Pass() {
  byte y;
  NODE
end:
  do
  :: atomic { own[0] != 0 && reserved[0] && (passed < NPASS || phase[HOLD(own[0])] == OVER) ->
              if :: phase[HOLD(own[0])] != OVER -> passed++ :: else fi;  AT0; handOn() }
#ifndef ONENODE
  :: atomic { own[1] != 0 && reserved[1] && (passed < NPASS || phase[HOLD(own[1])] == OVER) ->
              if :: phase[HOLD(own[1])] != OVER -> passed++ :: else fi; n = 1; handOn(); n = 0 }
#endif
  od
}

#if NEXP > 0
#if NEXP < 9
#define EXPIRES expired++
#else
#define EXPIRES skip
#endif
proctype Expire() {
  byte y;
  NODE
end:
  do
  :: atomic { own[0] != 0 && !reserved[0] && expired < NEXP -> EXPIRES; AT0; handOn() }
#ifndef ONENODE
  :: atomic { own[1] != 0 && !reserved[1] && expired < NEXP -> EXPIRES; n = 1; handOn(); n = 0 }
#endif
  od
}
#endif

#if NFAULT > 0
#define SAVE(i) own0[i] = own[i]; queue0[i] = queue[i]; reserved0[i] = reserved[i]; behind0[i] = behind[i]
#define BACK(i) own[i] = own0[i]; queue[i] = queue0[i]; reserved[i] = reserved0[i]; behind[i] = behind0[i]
#define LOSE(i) own[i] = 0; queue[i] = 0; reserved[i] = false; behind[i] = false
proctype Faults() {
  byte x;
end:
  do
  :: atomic { x < NFAULT -> SAVE(0) }
  :: atomic { x < NFAULT -> x++; LOSE(0) }
  :: atomic { x < NFAULT -> x++; BACK(0) }
#ifndef ONENODE
  :: atomic { x < NFAULT -> SAVE(1) }
  :: atomic { x < NFAULT -> x++; LOSE(1) }
  :: atomic { x < NFAULT -> x++; BACK(1) }
#endif
  od
}
#endif
