# shellcheck shell=bash
# What the scripts of this folder share; they source it. Sets ROOT, JOBS and the working directory.

unset CDPATH  # cd would print where it goes
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
JOBS=${TROIKA_JOBS:-$(nproc)}
cd "$ROOT" || exit 1

# Progress goes to standard error, so that standard output is the result alone.
say() { printf '\n== %s\n' "$*" >&2; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# configure_and_build PRESET [-DNAME=VALUE...] [TARGET...]: every target where none is named.
configure_and_build() {
  local preset=$1
  shift
  local settings=()
  while [[ ${1-} == -D* ]]; do
    settings+=("$1")
    shift
  done
  say "Build ($preset, $JOBS jobs) in build/$preset"
  local log=build/$preset.configure.log
  mkdir -p build
  # Configuring is only worth reading where it fails.
  if ! cmake --preset "$preset" "${settings[@]}" >"$log" 2>&1; then
    cat "$log" >&2
    return 1
  fi
  cmake --build "build/$preset" --parallel "$JOBS" ${1:+--target "$@"} >&2
}

# build_program: the program alone, in build/release, from the packages of the group `build`. Tests
# are not looked for, unless the folder has them already: without them CMake would remove what was
# built of them. Whoever configures the preset by itself gets the tests, whatever happened before.
build_program() {
  local cache=build/release/CMakeCache.txt gtest='' tests=OFF
  [[ ! -f $cache ]] || gtest=$(sed -n 's/^GTest_DIR:PATH=//p' "$cache")
  if [[ -n $gtest && -d $gtest ]]; then tests=ON; fi
  configure_and_build release "-DTROIKA_TESTS=$tests" troika
}
