#!/bin/sh
# Usage: install.sh redis-server | postgres | mariadb | prometheus | etcd | zsh | fish | spin
#
# Installs a server or a shell that tests need, where it is missing and can be installed. Says in one line what it did,
# or could not do. REDIS_SERVER names another redis-server than the one on PATH.
server=$1 option=--version

# program prints the path of the server's program. debian, alpine, brew and service are the names of its packages, and of
# the service that Debian's package starts.
case $server in
redis-server)
	if [ -n "${REDIS_SERVER:-}" ]; then
		version=$("$REDIS_SERVER" --version) || { echo "REDIS_SERVER=$REDIS_SERVER: not a server"; exit 1; }
		echo "$REDIS_SERVER: $(echo "$version" | cut -d' ' -f1-3)"
		exit 0
	fi
	debian=redis-server alpine=redis brew=redis service=redis-server
	program() { command -v redis-server; }
	;;
postgres) # Debian keeps its programs out of the path
	debian=postgresql alpine="postgresql postgresql-client" brew=postgresql service=postgresql
	program() { command -v postgres || ls /usr/lib/postgresql/*/bin/postgres 2>/dev/null | tail -n 1; }
	;;
mariadb) # Debian keeps the server out of a user's path
	debian=mariadb-server alpine=mariadb brew=mariadb service=mariadb
	program() { command -v mariadbd || command -v /usr/sbin/mariadbd; }
	;;
prometheus) # the tests need promtool, too
	debian=prometheus alpine=prometheus brew=prometheus service=prometheus
	program() { command -v promtool >/dev/null && command -v prometheus; }
	;;
etcd) # only make bench and its test use it
	debian=etcd-server alpine=etcd brew=etcd service=etcd
	program() { command -v etcd; }
	;;
zsh | fish | spin)
	debian=$server alpine=$server brew=$server service=
	[ "$server" != spin ] || option=-V
	program() { command -v "$server"; }
	;;
*)
	echo "install.sh: no server \"$server\"" >&2
	exit 2
	;;
esac
version() { "$(program)" $option 2>&1 | grep -v "^$(program): " | head -n 1 | tr -s ' ' | cut -d' ' -f1-3; }

if [ -n "$(program)" ]; then
	echo "$server: $(version)"
	exit 0
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
as_root=
[ "$(id -u)" = 0 ] || as_root="sudo -n"
if command -v apt-get >/dev/null 2>&1; then
	export DEBIAN_FRONTEND=noninteractive
	# The package starts a server of its own; the tests do not want it.
	{ $as_root apt-get update && $as_root apt-get install -y --no-install-recommends $debian &&
		{ [ -z "$service" ] || $as_root service $service stop || true; }; } >"$log" 2>&1
elif command -v apk >/dev/null 2>&1; then
	$as_root apk add $alpine >"$log" 2>&1
elif command -v brew >/dev/null 2>&1; then
	brew install $brew >"$log" 2>&1
else
	echo "no package manager known here" >"$log"
fi
if [ -n "$(program)" ]; then
	echo "$server: installed $(version)"
else
	echo "$server: missing and could not be installed ($(tail -n 1 "$log")); tests that need it will be skipped"
fi
