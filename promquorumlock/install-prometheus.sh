#!/bin/sh
# Installs Prometheus and promtool where they are missing and can be installed; says in one line what it did or could not do.
found() { command -v prometheus >/dev/null 2>&1 && command -v promtool >/dev/null 2>&1; }
version() { prometheus --version 2>&1 | head -n 1 | cut -d' ' -f1-3; }
if found; then
	echo "prometheus: $(version)"
	exit 0
fi
log=$(mktemp)
trap 'rm -f "$log"' EXIT
as_root=
[ "$(id -u)" = 0 ] || as_root="sudo -n"
if command -v apt-get >/dev/null 2>&1; then
	export DEBIAN_FRONTEND=noninteractive
	# The package starts a server of its own on port 9090; the tests do not want it.
	{ $as_root apt-get update && $as_root apt-get install -y --no-install-recommends prometheus &&
		{ $as_root service prometheus stop || true; }; } >"$log" 2>&1
elif command -v apk >/dev/null 2>&1; then
	$as_root apk add prometheus >"$log" 2>&1
elif command -v brew >/dev/null 2>&1; then
	brew install prometheus >"$log" 2>&1
else
	echo "no package manager known here" >"$log"
fi
if found; then
	echo "prometheus: installed $(version)"
else
	echo "prometheus: missing and could not be installed ($(tail -n 1 "$log")); tests that need it will be skipped"
fi
