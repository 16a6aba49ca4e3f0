#!/bin/sh
# make release: the commit and the tags of a release, of the root and of each module in contrib/. It pushes nothing.
# A module in contrib/ must require the root's version: its replace line serves this repository, and users have none.
set -eu
version=v${1#v}
printf '%s\n' "$version" | grep -Eqx 'v[0-9]+\.[0-9]+\.[0-9]+' || { echo "release: VERSION=$1 is not like v0.1.0" >&2; exit 2; }
test -z "$(git status --porcelain)" || { echo "release: there are changes without a commit" >&2; exit 1; }
tags="$(for module in contrib/*/go.mod; do echo "${module%/go.mod}/$version"; done)"
for tag in $version $tags; do
	! git rev-parse -q --verify "refs/tags/$tag" >/dev/null || { echo "release: the tag $tag exists" >&2; exit 1; }
done
heading="## ${version#v}, not yet released"
grep -Fqx "$heading" CHANGELOG.md || { echo "release: CHANGELOG.md has no heading \"$heading\"" >&2; exit 1; }

before=$(git rev-parse HEAD) user=$(mktemp -d)
undo() {
	rm -rf "$user"
	test -n "$before" || return 0
	git tag -d $version $tags >/dev/null 2>&1 || true
	git reset -q --soft "$before"
	git checkout -q "$before" -- CHANGELOG.md README.md docs/usage.md docs/operations.md contrib/*/go.mod integration/go.mod bench/go.mod # what else was edited stays
	echo "release: failed, and the commit and its tags are gone" >&2
}
trap undo EXIT
trap 'exit 1' HUP INT TERM
sed -i "s/^$heading\$/## ${version#v}, $(date -u +%F)/" CHANGELOG.md
sed -i '/^<!--untagged-->$/,/^<!--\/untagged-->$/d' README.md docs/usage.md docs/operations.md
sed -i -E "s#^(\s+github\.com/quorumlock/quorumlock\S*) v\S+#\1 $version#" contrib/*/go.mod integration/go.mod bench/go.mod
git commit -qam "Release $version"
for tag in $version $tags; do git tag -a -m "$tag" "$tag"; done

# Users' programs, each with one module alone, and the command: from these tags, and all else from the module cache.
root=github.com/quorumlock/quorumlock
export GOWORK=off GOFLAGS="-modcacherw -trimpath" GOSUMDB=off GOPRIVATE=$root
for module in contrib/* integration bench; do go -C $module list -mod=readonly -deps ./... >/dev/null; done
GOPROXY="file://$(go env GOMODCACHE)/cache/download,$(go env GOPROXY)"
tagged=$(git rev-parse --path-format=absolute --git-common-dir)
export GOPROXY GOMODCACHE="$user/cache" GOBIN="$user"
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="url.file://$tagged.insteadOf" GIT_CONFIG_VALUE_0=https://$root
for module in $root $(for module in contrib/*; do echo $root/$module; done); do
	mkdir "$user/program"
	echo "package program" >"$user/program/program.go"
	(cd "$user/program" && go mod init example.com/program && go get "$module/...@$version" && go list -deps "$module/...") >"$user/log" 2>&1 ||
		{ cat "$user/log" >&2; echo "release: a program cannot use $module" >&2; exit 1; }
	rm -r "$user/program"
done
go install $root/cmd/quorumlock@$version
go install $root/contrib/quorumvet/cmd/quorumvet@$version # which refuses a replace line
"$user/quorumlock" version | grep -F "$version"

before=
# GitHub runs no workflow for a push of more than three tags.
echo "Tagged $version, not pushed. Publish it, the root last, whose tag starts the workflow:"
echo "  git push --atomic origin HEAD:main" $tags
echo "  git push origin $version"
echo "Until then, a program in another directory gets it by these lines:"
echo "  export GOPRIVATE=$root GOSUMDB=off GOPROXY=$GOPROXY GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=$GIT_CONFIG_KEY_0 GIT_CONFIG_VALUE_0=$GIT_CONFIG_VALUE_0"
echo "  go get $root/redlock@$version"
