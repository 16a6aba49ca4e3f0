#!/bin/sh
# make release: the commit and the tags of a release, of the root and of each module in contrib/. It pushes nothing.
# A module in contrib/ must require the root's version: its replace line serves this repository, and users have none.
set -eu
version=$1
printf '%s\n' "$version" | grep -Eqx 'v[0-9]+\.[0-9]+\.[0-9]+' || { echo "release: VERSION=$version is not like v0.1.0" >&2; exit 2; }
test -z "$(git status --porcelain)" || { echo "release: there are changes without a commit" >&2; exit 1; }
tags="$(for module in contrib/*/go.mod; do echo "${module%/go.mod}/$version"; done)"
for tag in $version $tags; do
	! git rev-parse -q --verify "refs/tags/$tag" >/dev/null || { echo "release: the tag $tag exists" >&2; exit 1; }
done
heading="## ${version#v}, not yet released"
grep -Fqx "$heading" CHANGELOG.md || { echo "release: CHANGELOG.md has no heading \"$heading\"" >&2; exit 1; }

sed -i "s/^$heading\$/## ${version#v}, $(date -u +%F)/" CHANGELOG.md
sed -i -E "s#^(\s+github\.com/quorumlock/quorumlock\S*) v\S+#\1 $version#" contrib/*/go.mod integration/go.mod bench/go.mod
git commit -qam "Release $version"
for tag in $version $tags; do git tag -a -m "$tag" "$tag"; done
# GitHub runs no workflow for a push of more than three tags.
echo "Tagged $version, not pushed. Publish it, the root last, whose tag starts the workflow:"
echo "  git push --atomic origin HEAD:main" $tags
echo "  git push origin $version"
