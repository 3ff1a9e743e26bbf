#!/usr/bin/env bash
# Builds the fuzz targets and runs each for SECONDS (30 unless told), two at a time.
#
#   scripts/fuzz.sh [SECONDS] [TARGET...]
#
# The corpus lies in build/fuzz/corpus/TARGET and grows from run to run; an input that makes a target
# fail is kept in build/fuzz/findings, whose name the message tells.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

seconds=${1:-30}
[[ $seconds =~ ^[1-9][0-9]*$ ]] || die "the seconds come first, a whole number of them: scripts/fuzz.sh [SECONDS] [TARGET...]"
shift || true
configure_and_build fuzz fuzz_all

targets=("$@")
if ((${#targets[@]} == 0)); then
  mapfile -t targets < <(find build/fuzz -maxdepth 2 -type f -executable -name 'fuzz_*' -printf '%f\n' | sort)
fi
((${#targets[@]} > 0)) || die "build/fuzz holds no fuzz target: src/**/*_fuzz.cc and cmake/fuzz.cmake make them"

say "Make the corpus"
python3 scripts/make_fuzz_corpus.py build/fuzz/corpus >&2
mkdir -p build/fuzz/findings

fuzz_one() {
  local target=$1 seconds=$2
  local program log=build/fuzz/$target.log
  program=$(find build/fuzz -maxdepth 2 -type f -executable -name "$target" | head -n 1)
  [[ -n $program ]] || {
    printf '%s: no such target\n' "$target"
    return 1
  }
  mkdir -p "build/fuzz/corpus/$target"
  # One input may take 10 s and 2 GB: more is a finding, because bad input must neither hang nor
  # allocate without bound.
  if "$program" "build/fuzz/corpus/$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
    -artifact_prefix=build/fuzz/findings/"$target"- -print_final_stats=1 >"$log" 2>&1; then
    printf '%s: %s inputs in %s s, no finding\n' "$target" \
      "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" "$seconds"
  else
    tail -n 60 "$log"
    printf '%s: FAILED; the whole log is %s\n' "$target" "$log"
    return 1
  fi
}
export -f fuzz_one

say "Fuzz ${targets[*]}, $seconds s each"
# shellcheck disable=SC2016  # the inner shell expands it
printf '%s\n' "${targets[@]}" | xargs -P 2 -I '{}' bash -c 'fuzz_one "$1" "$2"' _ '{}' "$seconds" >&2
