-- The id and the secret of a ledger that is a copy: the keys are those of HMAC-SHA-256 (RFC 2104), as the migration makes them.
DO $$
DECLARE
    v_secret bytea := sha256(decode(replace(gen_random_uuid()::text || gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'));
    v_inner  bytea := decode(repeat('36', 64), 'hex');
    v_outer  bytea := decode(repeat('5c', 64), 'hex');
BEGIN
    FOR i IN 0..31 LOOP
        v_inner := set_byte(v_inner, i, get_byte(v_secret, i) # 54);
        v_outer := set_byte(v_outer, i, get_byte(v_secret, i) # 92);
    END LOOP;
    UPDATE fence.settings SET ledger_id = gen_random_uuid(), inner_key = v_inner, outer_key = v_outer;
END $$;
