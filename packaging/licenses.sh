#!/bin/sh
# make dist: the licences of the command, and of all that is compiled into it for these targets, to the standard output.
set -eu
go=${GO:-go}
heading() { printf '\n==== %s: %s\n\n' "$1" "${2##*/}"; cat "$2"; }
heading quorumlock LICENSE
heading "$($go env GOVERSION)" "$($go env GOROOT)/LICENSE"
modules=
for target in "$@"; do
	listed=$(CGO_ENABLED=0 GOOS=${target%-*} GOARCH=${target#*-} $go list -deps \
		-f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/quorumlock)
	modules=$(printf '%s\n%s' "$modules" "$listed")
done
printf '%s\n' "$modules" | sort -u | while read -r module version dir; do
	found=
	for file in "$dir"/LICEN[CS]E* "$dir"/COPYING* "$dir"/NOTICE*; do
		test -z "$module" || ! test -f "$file" || { found=$file; heading "$module $version" "$file"; }
	done
	test -z "$module" || test -n "$found" || { echo "licenses: $module has none" >&2; exit 1; }
done
