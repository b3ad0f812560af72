-- $1: names of types. For each, whether pg_catalog's operators compare it, as they do every enum, range, array and row; else the
-- five operators of its default btree class (<, <=, =, >=, >), and its own LIKE. ORDER BY and unique indexes use those of the class,
-- and only a superuser makes one, so that nobody's operator of a better fit is called, whatever the search_path.
SELECT n.name,
       t.typtype IN ('e', 'r', 'm', 'c') OR t.typcategory = 'A',
       (SELECT pg_catalog.array_agg(pg_catalog.format('%I.%s', s.nspname, o.oprname) ORDER BY a.amopstrategy)
          FROM pg_catalog.pg_am m
               JOIN pg_catalog.pg_opclass c ON c.opcmethod = m.oid
               JOIN pg_catalog.pg_amop a ON a.amopfamily = c.opcfamily AND a.amoplefttype = c.opcintype AND a.amoprighttype = c.opcintype
                    AND a.amoppurpose = 's'
               JOIN pg_catalog.pg_operator o ON o.oid = a.amopopr
               JOIN pg_catalog.pg_namespace s ON s.oid = o.oprnamespace
         WHERE m.amname = 'btree' AND c.opcdefault AND c.opcintype = t.oid),
       -- From the type's own owner, in its own schema.
       (SELECT pg_catalog.format('%I.%s', s.nspname, o.oprname)
          FROM pg_catalog.pg_operator o JOIN pg_catalog.pg_namespace s ON s.oid = o.oprnamespace
         WHERE o.oprname = '~~' AND o.oprleft = t.oid AND o.oprright = t.oid AND o.oprresult = 'pg_catalog.bool'::pg_catalog.regtype
           AND o.oprnamespace = t.typnamespace AND o.oprowner = t.typowner)
  FROM pg_catalog.unnest($1::text[]) AS n(name) JOIN pg_catalog.pg_type t ON t.oid = pg_catalog.to_regtype(n.name)
