-- The locker that is PostgreSQL itself: leases, the queues of those that wait for them, and the hand-off, for deployments
-- without Redis. Advisory as any locker: the ledger certifies (I4), and all that stands here may be lost. So no commit
-- waits for the disk. The tables are logged all the same: measured with durable commits of others beside them, unlogged ones
-- save a tenth of the time of a call at most, and every crash or fail-over would end every lease, where this way it is
-- those of the last moment.
--
-- Each call is one transaction that holds the lease's lock, which guards the lease's rows in all tables of this file. It waits
-- for no other lock, save for rows that a sweep deletes, which waits for nobody, so that there is no cycle. The lock is an
-- advisory one: those queue fairly, exist where there is no row yet, and write nothing. Its seed is another than that of the
-- ledger's lock of the same lease.
-- +goose Up

-- A lease that is held, or reserved for one that waited. A row whose time has passed means nothing.
CREATE TABLE fence.leases (
    name          text COLLATE "C" PRIMARY KEY,
    value         bytea       NOT NULL,
    -- The locker that made the value, and how it hears of what concerns its values: 0 when it listens on a channel, else it
    -- polls its mailbox every so many milliseconds.
    gateway       uuid        NOT NULL,
    poll_ms       integer     NOT NULL,
    waiters       integer     NOT NULL,
    holder        text        NOT NULL,
    reserved      boolean     NOT NULL,
    -- For whom the lease was last extended, and how far by another gateway than the value's.
    tenant        bytea,
    renewed_until timestamptz,
    ends_at       timestamptz NOT NULL
) WITH (fillfactor = 60);

-- Those that wait, in the order of place and value. One that is not heard of is forgotten after a while.
CREATE TABLE fence.lease_queue (
    name      text COLLATE "C",
    place     bigint,
    value     bytea,
    gateway   uuid        NOT NULL,
    poll_ms   integer     NOT NULL,
    waiters   integer     NOT NULL,
    holder    text        NOT NULL,
    note      text        NOT NULL,
    forget_at timestamptz NOT NULL,
    PRIMARY KEY (name, place, value)
) WITH (fillfactor = 80);

-- The mailboxes of lockers that cannot listen.
CREATE TABLE fence.lease_signals (
    gateway uuid,
    id      bigint GENERATED ALWAYS AS IDENTITY,
    kind    text        NOT NULL,
    name    text        NOT NULL,
    value   bytea       NOT NULL,
    sent_at timestamptz NOT NULL,
    PRIMARY KEY (gateway, id)
);

-- How a lease stands, and the value that was asked about (lease.Standing). Times are in microseconds.
CREATE TYPE fence.standing AS (
    value     bytea,
    reserved  boolean,
    holder    text,
    remaining bigint,
    tenant    bytea,
    renewed   bigint,
    behind    integer,
    place     bigint,
    followed  boolean,
    entries   integer
);

-- lease.Window, and for one that polls what it may miss.
CREATE FUNCTION fence.reservation(p_poll_ms integer) RETURNS interval LANGUAGE sql IMMUTABLE
AS $$ SELECT interval '250 ms' + p_poll_ms * interval '1 ms' $$;

-- How long a queue remembers an entry: longer than the longest wait.
CREATE FUNCTION fence.queue_memory() RETURNS interval LANGUAGE sql IMMUTABLE AS $$ SELECT interval '2 h' $$;

CREATE FUNCTION fence.locker_lock(p_name text) RETURNS bigint LANGUAGE sql IMMUTABLE
AS $$ SELECT pg_catalog.hashtextextended(p_name, 4919130327486023) $$;

-- The lock that the session in which a gateway listens holds as long as it lives.
CREATE FUNCTION fence.gateway_lock(p_gateway uuid) RETURNS bigint LANGUAGE sql IMMUTABLE
AS $$ SELECT pg_catalog.hashtextextended(p_gateway::text, 4919130327486024) $$;

-- Whether a gateway is known to be gone: it listens, and its session has ended. Those that ask share the lock, so that
-- they do not take each other for the gateway. (pg_locks would tell, too, and copies the locks of the whole server.)
CREATE FUNCTION fence.gateway_gone(p_gateway uuid, p_poll_ms integer) RETURNS boolean LANGUAGE sql VOLATILE
AS $$ SELECT p_poll_ms = 0 AND pg_try_advisory_xact_lock_shared(fence.gateway_lock(p_gateway)) $$;

-- Ends the other sessions that hold a gateway's lock, which only its own do: with the caller's rights. Returns how many.
-- +goose StatementBegin
CREATE FUNCTION fence.end_former_sessions(p_gateway uuid) RETURNS bigint LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp AS $$
    SELECT count(*) FILTER (WHERE pg_terminate_backend(l.pid))
      FROM pg_locks l
     WHERE l.locktype = 'advisory' AND l.granted AND l.mode = 'ExclusiveLock' AND l.objsubid = 1 AND l.pid <> pg_backend_pid()
       AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
       AND (l.classid::bigint << 32 | l.objid::bigint) = fence.gateway_lock(p_gateway)
$$;
-- +goose StatementEnd

-- Tells a gateway: kind is p (a lease is reserved for the value) or f (another stands behind it).
-- +goose StatementBegin
CREATE FUNCTION fence.tell_gateway(p_gateway uuid, p_poll_ms integer, p_kind text, p_name text, p_value bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF p_poll_ms = 0 THEN
        PERFORM pg_notify('fencegate_' || replace(p_gateway::text, '-', ''), p_kind || encode(p_value, 'hex') || p_name);
    ELSE
        INSERT INTO fence.lease_signals (gateway, kind, name, value, sent_at) VALUES (p_gateway, p_kind, p_name, p_value, clock_timestamp());
    END IF;
END $$;
-- +goose StatementEnd

-- Gives a lease that is free to the first of its queue, and returns its row; null, and no row, when nobody waits. held is the
-- row that has ended, if there is one.
-- +goose StatementBegin
CREATE FUNCTION fence.pass_lease(p_name text, INOUT held fence.leases) LANGUAGE plpgsql AS $$
DECLARE
    v_first fence.lease_queue;
    v_now   timestamptz := clock_timestamp();
BEGIN
    LOOP
        SELECT * INTO v_first FROM fence.lease_queue q WHERE q.name = p_name ORDER BY q.place, q.value LIMIT 1;
        IF NOT FOUND THEN
            IF held.name IS NOT NULL THEN
                DELETE FROM fence.leases l WHERE l.name = p_name;
            END IF;
            held := NULL;
            RETURN;
        END IF;
        IF fence.gateway_gone(v_first.gateway, v_first.poll_ms) THEN
            DELETE FROM fence.lease_queue q WHERE q.name = p_name AND q.gateway = v_first.gateway;
            CONTINUE;
        END IF;
        DELETE FROM fence.lease_queue q WHERE q.name = p_name AND q.place = v_first.place AND q.value = v_first.value;
        IF v_first.forget_at > v_now THEN
            EXIT;
        END IF;
    END LOOP;
    INSERT INTO fence.leases AS l (name, value, gateway, poll_ms, waiters, holder, reserved, ends_at)
    VALUES (p_name, v_first.value, v_first.gateway, v_first.poll_ms, v_first.waiters, v_first.holder, true,
            v_now + fence.reservation(v_first.poll_ms))
    ON CONFLICT (name) DO UPDATE SET value = excluded.value, gateway = excluded.gateway, poll_ms = excluded.poll_ms, waiters = excluded.waiters,
           holder = excluded.holder, reserved = true, tenant = NULL, renewed_until = NULL, ends_at = excluded.ends_at
    RETURNING l.* INTO held;
    PERFORM fence.tell_gateway(held.gateway, held.poll_ms, 'p', p_name, held.value);
END $$;
-- +goose StatementEnd

-- What a transaction of the locker's needs, whatever its session has. A client waits no longer for a lock either, and what it
-- does not wait for should not happen. Values are read as text where no statement is prepared.
CREATE FUNCTION fence.locker_settings() RETURNS text LANGUAGE sql VOLATILE
AS $$ SELECT set_config('synchronous_commit', 'off', true) || set_config('lock_timeout', '1s', true) || set_config('bytea_output', 'hex', true) $$;

-- What each call about a lease begins with: its lock, then its row; null when it is free. One that has ended goes to the
-- first of its queue. p_gateway is the caller.
-- +goose StatementBegin
CREATE FUNCTION fence.open_lease(p_name text, p_gateway uuid) RETURNS fence.leases LANGUAGE plpgsql AS $$
DECLARE
    held   fence.leases;
    v_now  timestamptz;
    v_most timestamptz;
BEGIN
    PERFORM fence.require_read_committed();
    PERFORM fence.locker_settings();
    PERFORM pg_advisory_xact_lock(fence.locker_lock(p_name));
    SELECT * INTO held FROM fence.leases l WHERE l.name = p_name;
    v_now := clock_timestamp();
    IF held.ends_at > v_now THEN
        -- The clock went back: nothing lasts longer than it could when it began.
        v_most := v_now + CASE WHEN held.reserved THEN fence.reservation(held.poll_ms) ELSE interval '24 h' END;
        IF held.ends_at > v_most THEN
            UPDATE fence.leases l SET ends_at = v_most WHERE l.name = p_name RETURNING l.* INTO held;
        END IF;
        RETURN held;
    END IF;
    IF held.reserved AND held.gateway <> p_gateway THEN
        -- It does not claim: it has stopped, perhaps, and its others would cost a reservation each. It comes back with them.
        DELETE FROM fence.lease_queue q WHERE q.name = p_name AND q.gateway = held.gateway;
    END IF;
    RETURN fence.pass_lease(p_name, held);
END $$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION fence.lease_standing(held fence.leases, p_name text, p_value bytea) RETURNS fence.standing LANGUAGE plpgsql AS $$
DECLARE
    v      fence.standing;
    v_now  timestamptz := clock_timestamp();
    v_last bigint;
BEGIN
    v.value := held.value;
    v.reserved := coalesce(held.reserved, false);
    v.holder := coalesce(held.holder, '');
    v.remaining := coalesce(greatest(extract(epoch FROM held.ends_at - v_now) * 1000000, 0), 0);
    v.tenant := held.tenant;
    v.renewed := coalesce(extract(epoch FROM held.renewed_until - v_now) * 1000000, 0);
    v.behind := coalesce(held.waiters, 0);
    SELECT count(*), coalesce(max(q.place) FILTER (WHERE q.value = p_value), 0), max(q.place) INTO v.entries, v.place, v_last
      FROM fence.lease_queue q WHERE q.name = p_name;
    IF v.place = 0 THEN
        v.followed := v.entries > 0 AND coalesce(held.value = p_value, false);
    ELSE
        v.followed := v.place < v_last OR EXISTS (SELECT FROM fence.lease_queue q WHERE q.name = p_name AND q.place = v.place AND q.value > p_value);
    END IF;
    RETURN v;
END $$;
-- +goose StatementEnd

-- lease.Locker's Enter. FG020 when the queue is full.
-- +goose StatementBegin
CREATE FUNCTION fence.lease_enter(p_name text, p_value bytea, p_gateway uuid, p_poll_ms integer, p_ttl_ms bigint, p_waiters integer, p_holder text, p_note text,
    p_place bigint) RETURNS fence.standing LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held     fence.leases := fence.open_lease(p_name, p_gateway);
    v        fence.standing;
    v_now    timestamptz := clock_timestamp();
    v_forget timestamptz := v_now + fence.queue_memory();
    v_place  bigint;
    v_last   fence.lease_queue;
BEGIN
    IF held.name IS NULL THEN
        -- Nobody waits, or it would have been given to him.
        INSERT INTO fence.leases AS l (name, value, gateway, poll_ms, waiters, holder, reserved, ends_at)
        VALUES (p_name, p_value, p_gateway, p_poll_ms, greatest(p_waiters - 1, 0), p_holder, false, v_now + p_ttl_ms * interval '1 ms')
        ON CONFLICT (name) DO UPDATE SET value = excluded.value, gateway = excluded.gateway, poll_ms = excluded.poll_ms, waiters = excluded.waiters,
               holder = excluded.holder, reserved = false, tenant = NULL, renewed_until = NULL, ends_at = excluded.ends_at
        RETURNING l.* INTO held;
        v := fence.lease_standing(held, p_name, p_value);
        v.place := CASE WHEN p_place > 0 THEN p_place ELSE extract(epoch FROM v_now) * 1000000 END;
        RETURN v;
    END IF;
    IF held.value = p_value THEN
        -- The first of them has it, unless it is reserved.
        held.waiters := CASE WHEN held.reserved THEN p_waiters ELSE greatest(p_waiters - 1, 0) END;
        UPDATE fence.leases l SET waiters = held.waiters WHERE l.name = p_name AND l.waiters <> held.waiters;
        RETURN fence.lease_standing(held, p_name, p_value);
    END IF;
    UPDATE fence.lease_queue q SET waiters = p_waiters, note = p_note, forget_at = v_forget WHERE q.name = p_name AND q.value = p_value;
    IF FOUND OR p_waiters = 0 THEN
        RETURN fence.lease_standing(held, p_name, p_value);
    END IF;
    IF (SELECT count(*) FROM fence.lease_queue q WHERE q.name = p_name) >= 10000 THEN
        RAISE EXCEPTION 'the queue of this lease is full' USING ERRCODE = 'FG020';
    END IF;
    SELECT * INTO v_last FROM fence.lease_queue q WHERE q.name = p_name ORDER BY q.place DESC, q.value DESC LIMIT 1;
    v_place := CASE WHEN p_place > 0 THEN p_place ELSE greatest(extract(epoch FROM v_now) * 1000000, v_last.place + 1) END;
    INSERT INTO fence.lease_queue (name, place, value, gateway, poll_ms, waiters, holder, note, forget_at)
    VALUES (p_name, v_place, p_value, p_gateway, p_poll_ms, p_waiters, p_holder, p_note, v_forget);
    IF v_last.name IS NULL THEN
        IF held.gateway <> p_gateway THEN
            PERFORM fence.tell_gateway(held.gateway, held.poll_ms, 'f', p_name, held.value);
        END IF;
    ELSIF (v_place, p_value) > (v_last.place, v_last.value) AND v_last.gateway <> p_gateway THEN
        PERFORM fence.tell_gateway(v_last.gateway, v_last.poll_ms, 'f', p_name, v_last.value);
    END IF;
    RETURN fence.lease_standing(held, p_name, p_value);
END $$;
-- +goose StatementEnd

-- lease.Locker's Stay.
-- +goose StatementBegin
CREATE FUNCTION fence.lease_stay(p_name text, p_value bytea, p_gateway uuid, p_waiters integer, p_note text) RETURNS fence.standing
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held fence.leases := fence.open_lease(p_name, p_gateway);
BEGIN
    IF held.value = p_value THEN
        UPDATE fence.leases l SET waiters = p_waiters WHERE l.name = p_name AND l.waiters <> p_waiters;
        held.waiters := p_waiters;
    ELSE
        UPDATE fence.lease_queue q SET waiters = p_waiters, note = p_note, forget_at = clock_timestamp() + fence.queue_memory()
         WHERE q.name = p_name AND q.value = p_value;
    END IF;
    RETURN fence.lease_standing(held, p_name, p_value);
END $$;
-- +goose StatementEnd

-- lease.Locker's Extend. p_next is null when the value stays; then the lease is not made shorter. p_waiters negative when it is to be as before.
-- +goose StatementBegin
CREATE FUNCTION fence.lease_extend(p_name text, p_value bytea, p_gateway uuid, p_ttl_ms bigint, p_tenant bytea, p_holder text, p_next bytea,
    p_waiters integer) RETURNS fence.standing
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held    fence.leases := fence.open_lease(p_name, p_gateway);
    v_until timestamptz := clock_timestamp() + p_ttl_ms * interval '1 ms';
BEGIN
    IF held.value = p_value THEN
        UPDATE fence.leases l SET
               ends_at = CASE WHEN p_next IS NULL AND NOT l.reserved THEN greatest(l.ends_at, v_until) ELSE v_until END,
               renewed_until = CASE WHEN l.gateway <> p_gateway THEN v_until END,
               holder = CASE WHEN l.reserved THEN p_holder ELSE l.holder END,
               waiters = CASE WHEN l.gateway = p_gateway AND p_waiters >= 0 THEN p_waiters ELSE l.waiters END,
               reserved = false, tenant = p_tenant, value = coalesce(p_next, l.value)
         WHERE l.name = p_name
        RETURNING l.* INTO held;
        RETURN fence.lease_standing(held, p_name, held.value);
    END IF;
    RETURN fence.lease_standing(held, p_name, p_value);
END $$;
-- +goose StatementEnd

-- lease.Locker's Drop. p_next is the next value of the hold.
-- +goose StatementBegin
CREATE FUNCTION fence.lease_drop(p_name text, p_value bytea, p_gateway uuid, p_next bytea, OUT had boolean, OUT next boolean) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held fence.leases := fence.open_lease(p_name, p_gateway);
BEGIN
    next := false;
    IF held.value IS DISTINCT FROM p_value THEN
        DELETE FROM fence.lease_queue q WHERE q.name = p_name AND q.value = p_value;
        had := FOUND;
        RETURN;
    END IF;
    had := true;
    IF held.gateway <> p_gateway AND held.waiters > 0 AND NOT fence.gateway_gone(held.gateway, held.poll_ms) THEN
        -- Those that wait behind it are next.
        UPDATE fence.leases l SET value = p_next, reserved = true, tenant = NULL, renewed_until = NULL,
               ends_at = clock_timestamp() + fence.reservation(l.poll_ms)
         WHERE l.name = p_name;
        PERFORM fence.tell_gateway(held.gateway, held.poll_ms, 'p', p_name, p_next);
        next := true;
        RETURN;
    END IF;
    held := fence.pass_lease(p_name, held);
    next := held.name IS NOT NULL;
END $$;
-- +goose StatementEnd

-- lease.Locker's Look: with the first p_entries of the queue, as arrays.
-- +goose StatementBegin
CREATE FUNCTION fence.lease_look(p_name text, p_gateway uuid, p_entries integer, OUT standing fence.standing, OUT queued bytea[], OUT waiters integer[],
    OUT notes text[]) LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    held fence.leases := fence.open_lease(p_name, p_gateway);
BEGIN
    standing := fence.lease_standing(held, p_name, NULL);
    SELECT array_agg(q.value ORDER BY q.place, q.value), array_agg(q.waiters ORDER BY q.place, q.value), array_agg(q.note ORDER BY q.place, q.value)
      INTO queued, waiters, notes
      FROM (SELECT * FROM fence.lease_queue q WHERE q.name = p_name ORDER BY q.place, q.value LIMIT p_entries) q;
END $$;
-- +goose StatementEnd

-- Empties the mailbox of a gateway that polls.
-- +goose StatementBegin
CREATE FUNCTION fence.poll_signals(p_gateway uuid) RETURNS SETOF fence.lease_signals LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM fence.locker_settings();
    RETURN QUERY WITH gone AS (DELETE FROM fence.lease_signals s WHERE s.gateway = p_gateway RETURNING s.*) SELECT * FROM gone g ORDER BY g.id;
END $$;
-- +goose StatementEnd

-- Deletes at most p_limit rows of each table that mean nothing any more: leases that ended and about which nobody has
-- called since, forgotten entries, mail that nobody fetches. It waits for nobody, and one at a time does it; returns how many.
-- +goose StatementBegin
CREATE FUNCTION fence.sweep_leases(p_limit integer) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_before timestamptz := clock_timestamp() - interval '1 minute';
    v_swept  bigint := 0;
    v_rows   bigint;
BEGIN
    PERFORM fence.locker_settings();
    IF NOT pg_try_advisory_xact_lock(fence.locker_lock('')) THEN
        RETURN 0;
    END IF;
    DELETE FROM fence.leases WHERE ctid = ANY (ARRAY(SELECT l.ctid FROM fence.leases l WHERE l.ends_at < v_before LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    v_swept := v_swept + v_rows;
    DELETE FROM fence.lease_queue WHERE ctid = ANY (ARRAY(SELECT q.ctid FROM fence.lease_queue q WHERE q.forget_at < v_before LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    v_swept := v_swept + v_rows;
    DELETE FROM fence.lease_signals WHERE ctid = ANY (ARRAY(SELECT s.ctid FROM fence.lease_signals s WHERE s.sent_at < v_before LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    RETURN v_swept + v_rows;
END $$;
-- +goose StatementEnd

-- As in all of the schema: nobody but the owner, until it is granted.
REVOKE ALL ON FUNCTION fence.reservation, fence.queue_memory, fence.locker_lock, fence.gateway_lock, fence.gateway_gone, fence.end_former_sessions,
    fence.tell_gateway, fence.pass_lease, fence.locker_settings, fence.open_lease, fence.lease_standing, fence.lease_enter, fence.lease_stay,
    fence.lease_extend, fence.lease_drop, fence.lease_look, fence.poll_signals, fence.sweep_leases FROM PUBLIC;
