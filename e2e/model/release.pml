/* How grants end, renewals, and what is held against them. */

/* Gives back the lease of a grant that has ended, f, of value x: to the next in its batch, else to the locker. */
inline freed(g, f) {
  atomic {
    if
    :: x == 0
    :: x != 0 && GATEWAY(HOLD(x)) == g && ALIVE(HOLD(x)) ->
       if
       :: tenant[HOLD(x)] == f -> floor[HOLD(x)] = f; tenant[HOLD(x)] = 0; unproved[HOLD(x)] = true; leaveOrTend()
       :: tenant[HOLD(x)] != f && BUSY(HOLD(x)) -> x = 0
       :: else -> leaveOrTend()
       fi
    :: else -> far = (GATEWAY(HOLD(x)) != g)
    fi };
  drop(x, far); far = false
}

/* One call to end a grant: f, which was granted under hold h; p is 0 for an admin's break. */
proctype Release(byte p, f, h, g) {
  byte x, y; bool far;
  NODE
#ifdef VIA
  if :: true :: g = 1 - g fi;      /* any gateway may be asked */
#endif
#ifdef BREAK
  if
  :: p == 0 ->
     atomic { IDLE && first != 0 && !ended -> ended = true; broken = true; live = false; x = val; f = first; RETURNED(f) };
     goto freeing
  :: else
  fi;
#endif
  atomic {
    if :: first == f -> live = false :: else fi;
    if
    :: GATEWAY(h) == g && phase[h] == HOLDING && tenant[h] == f && waits[h] != 0 && !pushed[h] && !unproved[h] ->
       leaving[h] = p; floor[h] = f; tenant[h] = 0
    :: else -> goto finish
    fi };
#ifdef RELEASE_EARLY
  RETURNED(f);
#endif
  if
  :: done[p] == SEALED -> RETURNED(f); goto out
  :: done[p] == UNSEALED
#ifdef GIVEUP
  :: true
#endif
  fi;
finish:
  endGrant(first == f, first == f);
#ifdef BREAK
freeing:
#endif
  freed(g, f);
out:
  atomic { done[p] = 0; f = 0; h = 0; g = 0 }
}

#ifdef SUSPECT
proctype Suspect(byte g) {
  byte x, y, f;
  NODE
  atomic { first != 0 && ended && own[0] == val && !reserved[0] -> x = val; f = first };
  atomic { if :: first == f -> skip :: else -> x = 0 fi };
  if :: x != 0 -> drop(x, GATEWAY(HOLD(x)) != g) :: else fi;
  f = 0
}
#endif

#ifdef RENEW
proctype Renew(byte f, a) {
  byte x, y; bool far; bit g;
  NODE
  if :: g = 0 :: g = 1 fi;
  atomic { if :: first == f && !ended -> x = val :: else -> goto out fi };
  atomic { if :: GATEWAY(HOLD(x)) == g && ALIVE(HOLD(x)) && tenant[HOLD(x)] != f &&
                 (BUSY(HOLD(x)) || waits[HOLD(x)] != 0) -> x = 0; goto out :: else fi };
  atomic { CHOOSE; if :: own[n] == x -> reserved[n] = false :: else -> x = 0; goto out fi };
  atomic { if :: first == f && !ended -> x = 0; goto out :: else fi };
  atomic { if :: val != x || acq == a :: else -> x = 0 fi };
  freed(g, f);
out:
  atomic { f = 0; a = 0; g = 0 }
}
#endif

#ifdef P_SERVED
proctype Watch() {
end:
  timeout -> assert(cut || own[0] == 0 && queue[0] == 0
#ifndef ONENODE
    && own[1] == 0 && queue[1] == 0
#endif
  );
  assert(cut || waiting == 0)
}
#endif
