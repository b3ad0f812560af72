-- The newest event (xid, id), null when there is none, and the transactions before it that are open: at most $1.
WITH now AS MATERIALIZED (
    SELECT pg_catalog.pg_snapshot_xmax(s)::text::bigint AS xmax,
           ARRAY(SELECT x::text::bigint AS xid FROM pg_catalog.pg_snapshot_xip(s) x ORDER BY xid) AS open
      FROM pg_catalog.pg_current_snapshot() s
)
SELECT l.epoch, e.xid, e.id, ARRAY(SELECT o FROM pg_catalog.unnest(n.open) o WHERE o < e.xid) AS open
  FROM now n CROSS JOIN (SELECT * FROM fence.event_log LIMIT 1) l
  LEFT JOIN LATERAL (SELECT e.xid, e.id FROM fence.events e WHERE e.xid < coalesce(n.open[$1::bigint + 1], n.xmax)
                     ORDER BY e.xid DESC, e.id DESC LIMIT 1) e ON true
