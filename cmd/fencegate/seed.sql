-- One transaction: all of it, once, and only where nothing has been protected and no table stands in the way.
DO $$
BEGIN
    IF EXISTS (SELECT FROM fence.protected) OR to_regclass('public.wallets') IS NOT NULL THEN
        RETURN;
    END IF;
    CREATE TABLE public.wallets (id bigint PRIMARY KEY, owner text NOT NULL, balance numeric NOT NULL);
    INSERT INTO public.wallets VALUES (42, 'alice', 100);
    PERFORM fence.protect('public.wallets', 'wallet:{id}');
    PERFORM fence.protect_bucket('reports', '', 'report:{key}');
END $$;
