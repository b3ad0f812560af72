/* What goes on around the clients. */

#ifdef BREAK
proctype Admin() {
  byte n, x, v;
  atomic { ENDABLE && first != 0 -> ended = true; x = first; v = val };
  returned = returned | BIT(x);
  CHOOSE;
#ifdef BREAK_NOCMP
  own[n] = 0
#else
  drop(v)
#endif
}
#endif

#ifdef WILD
proctype OtherLease() {
  byte c;
#ifdef SEQCACHE
  bit session;
#endif
  atomic { draw(); top = c; ISSUED(c, 0, 0) }
}
#endif

#if NEXP < 9
#define COUNT(x) x++
#else
#define COUNT(x) skip
#endif
proctype Expire() {
  byte x;
  do
  :: atomic { x < NEXP && own[0] != 0 -> own[0] = 0; COUNT(x) }
#ifndef ONENODE
  :: atomic { x < NEXP && own[1] != 0 -> own[1] = 0; COUNT(x) }
#endif
  od
}

#if NFAULT > 0
#ifdef COUNTER
#define SAVE(i) old[i] = own[i]; oldctr[i] = ctr[i]
#define LOSE(i) own[i] = 0; ctr[i] = 0
#define BACK(i) own[i] = old[i]; ctr[i] = oldctr[i]
#else
#define SAVE(i) old[i] = own[i]
#define LOSE(i) own[i] = 0
#define BACK(i) own[i] = old[i]
#endif
proctype Faults() {
  byte x;
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

