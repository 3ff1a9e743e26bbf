#!/usr/bin/env bash
# Installs the Debian packages of the named groups that are missing, and nothing if all are there.
#
#   scripts/packages.sh [--list] GROUP...      groups: see scripts/packages.txt
#
# Works as root and as a user with sudo. --list prints the packages of the groups and stops.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

list_only=false
if [[ ${1-} == --list ]]; then
  list_only=true
  shift
fi
(($# > 0)) || die "name a group: $(awk '!/^#/ && NF {print $1}' scripts/packages.txt | sort -u | xargs)"

wanted=()
for group in "$@"; do
  mapfile -t found < <(awk -v g="$group" '$1 == g {print $2}' scripts/packages.txt)
  ((${#found[@]} > 0)) || die "scripts/packages.txt has no group named $group"
  wanted+=("${found[@]}")
done
if $list_only; then
  printf '%s\n' "${wanted[@]}" | sort -u
  exit 0
fi

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  say "This is not a Debian system: nothing is installed. The build needs: ${wanted[*]}"
  exit 0
fi

is_installed() { [[ $(dpkg-query -W -f='${Status}' "$1" 2>/dev/null) == *"ok installed" ]]; }

missing=()
for package in "${wanted[@]}"; do
  is_installed "$package" || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  say "Debian packages ($*): all ${#wanted[@]} are installed"
  exit 0
fi

# With bash 4.4 and later an empty array is fine under set -u.
as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null ||
    die "these packages are missing: ${missing[*]}. Ask an administrator, or install sudo and run this again"
  as_root=(sudo)
fi
say "Debian packages ($*): installing ${missing[*]}${as_root:+ with sudo}"
apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300)
# A foreign source that does not answer must not stop the work: the installation below decides.
"${apt[@]}" update >&2 || printf 'warning: apt-get update reported an error; trying to install all the same\n' >&2
"${apt[@]}" install --no-install-recommends "${missing[@]}" >&2 ||
  die "apt-get could not install ${missing[*]}; its own message stands above"
