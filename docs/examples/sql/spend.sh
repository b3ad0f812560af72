#!/bin/sh
# A writer that knows nothing but SQL, under a lease:
#
#   fencegate run --lease wallet:42 --wait 1m -- spend.sh
#
# The role needs to be a member of fence_writer, or the owner of schema fence. Its password belongs into ~/.pgpass: a URL that holds one shows it
# in the list of processes.
set -eu

exec psql -X -q -A -t -f "$(dirname "$0")/spend.sql" "$FENCEGATE_DATABASE_URL"
