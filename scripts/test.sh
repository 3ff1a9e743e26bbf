#!/usr/bin/env bash
# Installs what is missing, builds, and tests.
#
#   scripts/test.sh [STAGE...]         without a stage: release
#
#   release        every test, in the build that people use
#   format         the formatter has nothing to change, and shellcheck nothing to say
#   asan-subset    the rooms that read untrusted bytes, under the address and undefined-behaviour
#                  sanitizers, but for grammar, convert, server: fuzz targets run the readers of the
#                  first two under the same sanitizers, and the third needs every room to be built
#   asan           every test under these sanitizers
#   tsan           the tests of what starts threads, under the thread sanitizer: rooms, and whole
#                  programs, but for those that repeat arithmetic in one format after another
#   opencl         tests of OpenCL lanes, on PoCL, which makes a device of the cores
#   rusticl        some of them on Mesa's driver, which takes minutes for others
#   oclgrind       the same few on a device that looks for races and bounds, and finds none
#   openvino       tests of the vendor's lanes, with OpenVINO from PyPI, and of three lanes with PoCL
#   fuzz=SECONDS   each fuzz target for so long
#   bench          bench/ compiles and links, in the build that people use; nothing is measured
#   tidy           clang-tidy over src/
#   arm64          unit tests of the rooms up to the kernels, built for arm64, run by qemu; the
#                  program, static, as several processors
#
# Runs every stage even if one fails, and ends with a line for each and the counts of its tests.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

# run_ctest PRESET [ctest option...]: the counts go to build/PRESET.junit.xml. Fails where no test
# has passed, whatever ctest says.
run_ctest() {
  local preset=$1
  shift
  local report=$ROOT/build/$preset.junit.xml
  rm -f "$report"
  say "Test ($preset)"
  ctest --preset "$preset" --parallel "$JOBS" --output-junit "$report" "$@" >&2
  [[ -s $report ]] || die "ctest has left no report of the preset $preset"
  python3 scripts/count_tests.py "$preset" "$report" >/dev/null || die "no test of the preset $preset has passed"
}

stage_release() {
  scripts/packages.sh build test
  configure_and_build release
  run_ctest release
}

stage_format() {
  scripts/packages.sh format
  say "Check the format"
  scripts/format.sh --check >&2
  shellcheck -x scripts/*.sh .ci/* >&2
}

stage_asan-subset() {
  scripts/packages.sh build test
  configure_and_build asan troika_test_{base,tensor,gguf,fetch,http,text,jinja}
  run_ctest asan-subset
}

stage_asan() {
  scripts/packages.sh build test
  configure_and_build asan
  run_ctest asan
}

stage_tsan() {
  scripts/packages.sh build test
  configure_and_build tsan troika \
    troika_test_{base,fetch,http,grammar,attention,weights,forge,convert,lanes,schedule,prepare} \
    troika_test_{engine,measure,tune,server,whole,program}
  run_ctest tsan
}

stage_opencl() {
  scripts/packages.sh build test opencl
  test_lanes opencl
}

stage_rusticl() {
  scripts/packages.sh build test rusticl
  test_lanes rusticl
}

stage_oclgrind() {
  scripts/packages.sh build test oclgrind
  rm -rf build/oclgrind
  mkdir -p build/oclgrind
  test_lanes oclgrind
  # Each test is a process that leaves a log, which is empty where there is nothing to say.
  local n_logs n_tests faults
  n_logs=$(find build/oclgrind -type f | wc -l)
  n_tests=$(grep -c '<testcase ' build/oclgrind.junit.xml)
  ((n_logs >= n_tests)) || die "$n_tests tests have left $n_logs logs of oclgrind"
  faults=$(cat build/oclgrind/*)
  [[ -z $faults ]] || die "oclgrind has found faults: $faults"
}

stage_openvino() {
  scripts/packages.sh build test openvino opencl
  local python=build/openvino/bin/python
  # pip comes last into an environment: one without it was cut off.
  if ! "$python" -m pip --version >/dev/null 2>&1; then
    rm -rf build/openvino
    python3 -m venv build/openvino
  fi
  "$python" -m pip --quiet install openvino
  TROIKA_OPENVINO=$("$python" -c 'import openvino; print(*openvino.__path__)') test_lanes openvino
}

# test_lanes PRESET: tests of lanes on devices, whose programs the stage release has built, if it ran.
test_lanes() {
  configure_and_build release
  run_ctest "$1"
}

stage_fuzz() {
  scripts/packages.sh build fuzz
  scripts/fuzz.sh "$1"
}

stage_bench() {
  scripts/packages.sh build test bench
  configure_and_build release -DTROIKA_BENCH=ON bench_all
}

stage_tidy() {
  scripts/packages.sh build test tidy
  scripts/tidy.sh
}

stage_arm64() {
  scripts/packages.sh build arm64
  scripts/arm64_sysroot.sh
  configure_and_build arm64 troika troika_test_{base,tensor,gguf,text,jinja,kernels}
  run_ctest arm64
  build_program  # whose text the other must write
  say "Run the program as several processors"
  scripts/arm64_matrix.sh >&2
}

(($# > 0)) || set -- release
for stage in "$@"; do
  [[ $stage =~ ^(release|format|asan|asan-subset|tsan|opencl|rusticl|oclgrind|openvino|fuzz=[1-9][0-9]*|bench|tidy|arm64)$ ]] ||
    die "there is no stage named $stage; scripts/test.sh says at its top which there are"
done

rm -f build/*.junit.xml
results=()
all_passed=true
for stage in "$@"; do
  say "Stage $stage"
  start_s=$SECONDS
  name=${stage%%=*}
  seconds=${stage#*=}
  # A shell of its own: `set -e` does not work inside a function whose status is asked for.
  set +e
  (
    set -e
    "stage_$name" "$seconds"
  )
  status=$?
  set -e
  if ((status == 0)); then verdict=passed; else verdict=FAILED all_passed=false; fi
  results+=("$(printf '%-12s %s, %d s' "$stage" "$verdict" $((SECONDS - start_s)))")
done

say "Result"
printf '%s\n' "${results[@]}"
for stage in "$@"; do
  report=build/$stage.junit.xml
  [[ ! -f $report ]] || python3 scripts/count_tests.py "$stage" "$report" || all_passed=false
done
$all_passed
