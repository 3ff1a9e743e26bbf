#!/usr/bin/env bash
# Formats every C and C++ file in place; with --check it changes nothing and fails where a file is
# not formatted. The version is pinned because each version of clang-format has its own taste.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

command -v clang-format-14 >/dev/null ||
  die "clang-format-14 is missing: run scripts/packages.sh format"
mode=(-i)
case ${1-} in
  '') ;;
  --check) mode=(--dry-run --Werror) ;;
  *) die "usage: scripts/format.sh [--check]" ;;
esac

folders=()
for folder in include src tests bench examples; do
  [[ -d $folder ]] && folders+=("$folder")
done
mapfile -d '' files < <(find "${folders[@]}" -type f \
  \( -name '*.h' -o -name '*.c' -o -name '*.cc' -o -name '*.inl' \) -print0 | sort -z)
((${#files[@]} > 0)) || die "no source file found below $ROOT"
printf '%s\0' "${files[@]}" | xargs -0 -n 20 -P "$JOBS" clang-format-14 --style=file "${mode[@]}" ||
  die "some files are not formatted: run scripts/format.sh"
printf '%d files are formatted\n' "${#files[@]}"
