-- $1 is the number of rows, $2 a bucket, or empty.
CREATE TABLE public.bench (id bigint PRIMARY KEY, balance numeric NOT NULL, note text);
INSERT INTO public.bench SELECT id, 0 FROM generate_series(1, $1::bigint) id;
SELECT fence.protect('public.bench', 'bench:{id}');
SELECT fence.protect_bucket($2::text, '', 'bench:{key}') WHERE $2::text <> '';
