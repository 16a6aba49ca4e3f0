#!/bin/sh
# Installs the PostgreSQL server where it is missing and can be installed; says in one line what it did or could not do.
# Debian keeps the server's programs out of the path.
find_postgres() {
	postgres=$(command -v postgres || ls /usr/lib/postgresql/*/bin/postgres 2>/dev/null | tail -n 1)
	[ -n "$postgres" ]
}
if find_postgres; then
	echo "postgres: $("$postgres" --version)"
	exit 0
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
as_root=
[ "$(id -u)" = 0 ] || as_root="sudo -n"
if command -v apt-get >/dev/null 2>&1; then
	export DEBIAN_FRONTEND=noninteractive
	# The package starts a server of its own on port 5432; the tests do not want it.
	{ $as_root apt-get update && $as_root apt-get install -y --no-install-recommends postgresql &&
		{ $as_root service postgresql stop || true; }; } >"$log" 2>&1
elif command -v apk >/dev/null 2>&1; then
	$as_root apk add postgresql >"$log" 2>&1
elif command -v brew >/dev/null 2>&1; then
	brew install postgresql >"$log" 2>&1
else
	echo "no package manager known here" >"$log"
fi
if find_postgres; then
	echo "postgres: installed $("$postgres" --version)"
else
	echo "postgres: missing and could not be installed ($(tail -n 1 "$log")); tests that need it will be skipped"
fi
