#!/usr/bin/env bash
# Runs clang-tidy (version 14, checks in .clang-tidy) over the sources, or over the named files.
#
#   scripts/tidy.sh [FILE...]
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

command -v clang-tidy-14 >/dev/null || die "clang-tidy-14 is missing: run scripts/packages.sh tidy"
# A build made by clang: its flags are the ones that clang-tidy knows.
mkdir -p build
cmake --preset release -B build/tidy -DTROIKA_GROUPS=OFF -DCMAKE_C_COMPILER=clang-14 \
  -DCMAKE_CXX_COMPILER=clang++-14 \
  >build/tidy.configure.log || {
  cat build/tidy.configure.log >&2
  exit 1
}

files=("$@")
if ((${#files[@]} == 0)); then
  mapfile -d '' files < <(find src -type f -name '*.cc' ! -name '*_test.cc' ! -name '*_test_support.cc' \
    ! -name '*_fuzz.cc' -print0 | sort -z)
fi
say "clang-tidy over ${#files[@]} files"
printf '%s\0' "${files[@]}" |
  xargs -0 -n 1 -P "$JOBS" clang-tidy-14 -p build/tidy --quiet >&2
