# shellcheck shell=bash
# What the scripts of this folder share; they source it. Sets ROOT, JOBS and the working directory.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
JOBS=${TROIKA_JOBS:-$(nproc)}
cd "$ROOT" || exit 1

# Progress goes to standard error, so that standard output is the result alone.
say() { printf '\n== %s\n' "$*" >&2; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# configure_and_build PRESET [TARGET...]: every target where none is named.
configure_and_build() {
  local preset=$1
  shift
  say "Build ($preset, $JOBS jobs) in build/$preset"
  local log=build/$preset.configure.log
  mkdir -p build
  # Configuring is only worth reading where it fails.
  if ! cmake --preset "$preset" >"$log" 2>&1; then
    cat "$log" >&2
    return 1
  fi
  cmake --build "build/$preset" --parallel "$JOBS" ${1:+--target "$@"} >&2
}
