#!/usr/bin/env bash
# Downloads the arm64 libraries that the cross build links and unpacks them into build/arm64-sysroot.
#
# Nothing is installed and no setting of this machine changes: apt keeps its lists for arm64 in a folder
# of its own. The C and C++ libraries come with the cross compiler. Does nothing if the sysroot is
# already made from the same list of packages.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

sysroot=$ROOT/build/arm64-sysroot
mapfile -t packages < <(scripts/packages.sh --list sysroot)
if [[ -f $sysroot/packages && "$(cat "$sysroot/packages")" == "${packages[*]}" ]]; then
  say "arm64 sysroot: $sysroot is there"
  exit 0
fi

command -v apt-get >/dev/null || die "the arm64 sysroot is made with apt-get, which this system lacks"
say "arm64 sysroot: downloading ${packages[*]} into $sysroot"
rm -rf "$sysroot"
mkdir -p "$sysroot"/apt/{state/lists/partial,cache/archives/partial,debs}
touch "$sysroot/apt/status"
# APT::Sandbox::User: as root apt would download as a user who may not be allowed to write here.
apt=(apt-get -q
  -o "APT::Architecture=arm64" -o "APT::Architectures::=arm64" -o "APT::Sandbox::User="
  -o "Dir::State=$sysroot/apt/state" -o "Dir::State::status=$sysroot/apt/status"
  -o "Dir::Cache=$sysroot/apt/cache" -o "Acquire::Languages=none")
# A source without arm64 reports an error here; the download below decides.
"${apt[@]}" update >&2 || printf 'warning: apt-get update reported an error; trying to download all the same\n' >&2
(cd "$sysroot/apt/debs" && "${apt[@]}" download "${packages[@]}" >&2) ||
  die "apt-get could not download the arm64 packages; its own message stands above"
for deb in "$sysroot"/apt/debs/*.deb; do
  dpkg-deb --extract "$deb" "$sysroot"
done
rm -rf "$sysroot/apt"
printf '%s' "${packages[*]}" >"$sysroot/packages"
