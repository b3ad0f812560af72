-- The events behind a position. $1, $2: the last one (xid, id) before it. $3, $4: the transactions before that one which were open,
-- and what was seen of each (0, or an id). $5: how many. $6: how many open transactions a position can name.
--
-- One row at least, whose event is null when there is none. One from a transaction to come is of another cluster, and not
-- told. ready: no transaction that is open stands before the event, or the event is so old that it is told all the same,
-- and open names those.
WITH now AS MATERIALIZED (
    SELECT pg_catalog.pg_snapshot_xmin(s)::text::bigint AS xmin, pg_catalog.pg_snapshot_xmax(s)::text::bigint AS xmax,
           ARRAY(SELECT x::text::bigint AS xid FROM pg_catalog.pg_snapshot_xip(s) x ORDER BY xid) AS open
      FROM pg_catalog.pg_current_snapshot() s
)
SELECT l.epoch, l.pruned_xid, l.pruned_id, n.xmax,
       e.xid, e.id, e.at, e.kind, e.lease, e.principal, e.holder, e.first, e.why, e.by, e.resource, e.token, e.code,
       e.xid < n.xmin OR e.at < pg_catalog.clock_timestamp() - interval '1 second' AS ready,
       CASE WHEN e.xid > n.xmin THEN ARRAY(SELECT o FROM pg_catalog.unnest(n.open) o WHERE o < e.xid LIMIT $6::bigint + 1) END AS open
  FROM now n CROSS JOIN (SELECT * FROM fence.event_log LIMIT 1) l
  LEFT JOIN LATERAL (
       SELECT e.* FROM (
           SELECT e.* FROM ROWS FROM (pg_catalog.unnest($3::bigint[]), pg_catalog.unnest($4::bigint[])) o(xid, id)
            CROSS JOIN LATERAL (SELECT e.* FROM fence.events e WHERE e.xid = o.xid AND e.id > o.id ORDER BY e.xid, e.id LIMIT $5::bigint) e
           UNION ALL
           (SELECT e.* FROM fence.events e WHERE (e.xid, e.id) > ($1::bigint, $2::bigint) AND e.xid < n.xmax ORDER BY e.xid, e.id LIMIT $5::bigint)
       ) e ORDER BY e.xid, e.id LIMIT $5::bigint
  ) e ON true
 ORDER BY e.xid, e.id
