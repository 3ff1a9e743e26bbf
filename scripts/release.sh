#!/usr/bin/env bash
# Tags the commit as the version that CMakeLists.txt names and makes the source archive in build/.
# Refuses a dirty tree, a version that has a tag, and a commit for which .ci/full did not pass.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

version=$(sed -n 's/^project(troika VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
[[ -n $version ]] || die "CMakeLists.txt names no version"
tag=v$version
commit=$(git rev-parse HEAD)

[[ -z $(git status --porcelain) ]] || die "the tree has changes that are not committed"
! git rev-parse -q --verify "refs/tags/$tag" >/dev/null || die "$tag is there: raise the version in CMakeLists.txt"
[[ -f build/full-passed && $(cat build/full-passed) == "$commit" ]] ||
  die ".ci/full did not pass here for $commit: run it first"

archive=build/troika-$version.tar.gz
git archive --format=tar.gz --prefix="troika-$version/" -o "$archive" "$commit"
# It names the file alone, for whoever has both in one folder.
(cd build && sha256sum "troika-$version.tar.gz" | tee "troika-$version.tar.gz.sha256")
# Last, for a tag says that the version is there, and the next call refuses it.
git tag -a "$tag" -m "Troika $version"
say "Tagged $commit as $tag; nothing is pushed"
