-- The ledger: what was granted, what was written last, which blob an object is, and what is protected.
-- +goose Up

CREATE TABLE fence.settings (
    only_row  boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    ledger_id uuid  NOT NULL DEFAULT gen_random_uuid(),
    -- The ledger's secret, as the two padded keys of HMAC-SHA-256 (RFC 2104).
    inner_key bytea NOT NULL,
    outer_key bytea NOT NULL
);

-- +goose StatementBegin
DO $$
DECLARE
    v_secret bytea := sha256(decode(replace(gen_random_uuid()::text || gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'));
    v_inner  bytea := decode(repeat('36', 64), 'hex');
    v_outer  bytea := decode(repeat('5c', 64), 'hex');
BEGIN
    IF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION 'fencegate needs a database with encoding UTF8, this one has %', current_setting('server_encoding');
    END IF;
    FOR i IN 0..31 LOOP
        v_inner := set_byte(v_inner, i, get_byte(v_secret, i) # 54);
        v_outer := set_byte(v_outer, i, get_byte(v_secret, i) # 92);
    END LOOP;
    INSERT INTO fence.settings (inner_key, outer_key) VALUES (v_inner, v_outer);
END $$;
-- +goose StatementEnd

-- Block n is the tokens n*1000 .. n*1000+999. CACHE 1: a cached block would come after a later one (I4).
CREATE SEQUENCE fence.blocks AS bigint MINVALUE 1 MAXVALUE 999999999999 CACHE 1 NO CYCLE;

-- The newest grant of each lease. Rows are never deleted: a missing row would make the floor 0 true twice (I4).
CREATE TABLE fence.grants (
    lease        text COLLATE "C" PRIMARY KEY,
    first        bigint         NOT NULL,
    blocks       int8multirange NOT NULL,
    id_hash      bytea          NOT NULL,
    acquire_hash bytea          NOT NULL,
    principal    text           NOT NULL,
    holder       text           NOT NULL,
    ttl_ms       bigint         NOT NULL,
    granted_at   timestamptz    NOT NULL,
    ended_at     timestamptz,
    ended_why    text
);

-- The high-water mark of each resource ever written. Rows are never deleted: marks survive deletes (I1).
CREATE TABLE fence.marks (
    resource   text COLLATE "C" PRIMARY KEY,
    token      bigint      NOT NULL,
    lease      text        NOT NULL,
    principal  text        NOT NULL,
    digest     bytea,
    created    boolean     NOT NULL,
    xid        xid8        NOT NULL,
    written_at timestamptz NOT NULL
) WITH (fillfactor = 80);

-- Stored bytes: an intent is pending until it is published (committed) or given up (aborted); a published blob
-- that was superseded is garbage. Garbage and aborted blobs are deleted twice, a grace period apart.
CREATE TABLE fence.blobs (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    bucket     text COLLATE "C" NOT NULL,
    principal  text        NOT NULL,
    state      text        NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'committed', 'garbage', 'aborted')),
    state_at   timestamptz NOT NULL DEFAULT now(),
    deletions  smallint    NOT NULL DEFAULT 0
);
CREATE INDEX blobs_uncommitted ON fence.blobs (state, state_at) WHERE state <> 'committed';

CREATE TABLE fence.objects (
    bucket      text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    blob        uuid REFERENCES fence.blobs,
    size        bigint,
    sha256      bytea,
    header      jsonb,
    deleted     boolean     NOT NULL,
    modified_at timestamptz NOT NULL,
    PRIMARY KEY (bucket, key),
    CHECK (deleted = (blob IS NULL))
);
CREATE UNIQUE INDEX objects_blob ON fence.objects (blob) WHERE blob IS NOT NULL;

CREATE SEQUENCE fence.binding_versions AS bigint;

-- What is protected, by which lease. A table has one row, a bucket one for each prefix (the longest wins). Key
-- columns and types are kept as they were when the table was protected, so that a row keeps its name.
CREATE TABLE fence.protected (
    kind        text NOT NULL CHECK (kind IN ('table', 'bucket')),
    name        text COLLATE "C" NOT NULL,
    prefix      text COLLATE "C" NOT NULL DEFAULT '',
    template    text   NOT NULL,
    key_columns text[] NOT NULL DEFAULT '{}',
    key_types   text[] NOT NULL DEFAULT '{}',
    version     bigint NOT NULL DEFAULT nextval('fence.binding_versions'),
    PRIMARY KEY (kind, name, prefix)
);
