#!/bin/sh
# Installs redis-server where it is missing and can be installed; says in one line what it did or could not do.
# REDIS_SERVER names another server than the one on PATH.
if [ -n "${REDIS_SERVER:-}" ]; then
	version=$("$REDIS_SERVER" --version) || { echo "REDIS_SERVER=$REDIS_SERVER: not a server"; exit 1; }
	echo "$REDIS_SERVER: $(echo "$version" | cut -d' ' -f1-3)"
	exit 0
fi
if command -v redis-server >/dev/null 2>&1; then
	echo "redis-server: $(redis-server --version | cut -d' ' -f1-3)"
	exit 0
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
as_root=
[ "$(id -u)" = 0 ] || as_root="sudo -n"
if command -v apt-get >/dev/null 2>&1; then
	export DEBIAN_FRONTEND=noninteractive
	# The package starts a server of its own on port 6379; the tests do not want it.
	{ $as_root apt-get update && $as_root apt-get install -y --no-install-recommends redis-server &&
		{ $as_root service redis-server stop || true; }; } >"$log" 2>&1
elif command -v apk >/dev/null 2>&1; then
	$as_root apk add redis >"$log" 2>&1
elif command -v brew >/dev/null 2>&1; then
	brew install redis >"$log" 2>&1
else
	echo "no package manager known here" >"$log"
fi
if command -v redis-server >/dev/null 2>&1; then
	echo "redis-server: installed $(redis-server --version | cut -d' ' -f1-3)"
else
	echo "redis-server: missing and could not be installed ($(tail -n 1 "$log")); tests that need it will be skipped"
fi
