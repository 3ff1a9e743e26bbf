#!/usr/bin/env bash
# Runs clang-tidy (version 14, checks in .clang-tidy) over the sources, or over the named files.
#
#   scripts/tidy.sh [FILE...]
#
# All sources are read in the groups in which they are compiled (cmake/groups.cmake): the headers of
# sixteen files are then read once, and the whole takes a quarter of the time. Named files are read
# alone.
#
# What passed is not read again while its preprocessed text, the checks and all NOLINT notes stay as
# they were: build/tidy/passed has a name for each such text.
set -euo pipefail
files=()
for file in "$@"; do
  [[ $file == /* ]] || file=$PWD/$file
  files+=("$file")
done
# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

command -v clang-tidy-14 >/dev/null || die "clang-tidy-14 is missing: run scripts/packages.sh tidy"
groups=OFF
(($# > 0)) || groups=ON
# A build made by clang: its flags are the ones that clang-tidy knows.
mkdir -p build/tidy/passed
cmake --preset release -B build/tidy "-DTROIKA_GROUPS=$groups" -DTROIKA_TESTS=OFF \
  -DCMAKE_C_COMPILER=clang-14 -DCMAKE_CXX_COMPILER=clang++-14 \
  -DCMAKE_CXX_COMPILER_LAUNCHER= -DCMAKE_C_COMPILER_LAUNCHER= >build/tidy.configure.log || {
  cat build/tidy.configure.log >&2
  exit 1
}

if ((${#files[@]} == 0)); then
  mapfile -t files < <(python3 - <<'PYTHON'
import json
import os

for entry in json.load(open("build/tidy/compile_commands.json")):
    path = os.path.relpath(os.path.join(entry["directory"], entry["file"]))
    # A group of tests or of the reference, which stand elsewhere, has only files of its kind.
    if path.startswith("build/tidy/groups/"):
        is_product = not path.startswith("build/tidy/groups/reference_")
    else:
        is_product = path.startswith("src/")
    if is_product:
        print(path)
PYTHON
  )
  ((${#files[@]} > 0)) || die "build/tidy/compile_commands.json names no file of src"
  # Only a group includes files that are no headers.
  export TIDY_OPTIONS='--header-filter=/(src|include)/.*\.(h|cc)$ --checks=-bugprone-suspicious-include'
fi

# What a verdict depends on beside a file's own text.
rules=$( (
  clang-tidy-14 --version
  cat .clang-tidy scripts/tidy.sh
  grep -rhF NOLINT src include | sort
) | sha256sum)
export rules

# Prints the command that preprocesses a file: the file's own, without its output. Macros stay in
# the text, since some checks read them.
preprocessing_of() {
  python3 - "$1" <<'PYTHON'
import json
import os
import shlex
import sys

if not os.path.exists(sys.argv[1]):
    sys.exit(f"error: {sys.argv[1]} is not there")
for entry in json.load(open("build/tidy/compile_commands.json")):
    if os.path.samefile(os.path.join(entry["directory"], entry["file"]), sys.argv[1]):
        words = shlex.split(entry["command"])
        at = words.index("-o")
        kept = [w for w in words[:at] + words[at + 2:] if w != "-c"]
        print(shlex.join(["cd", entry["directory"]]), "&&", shlex.join(kept + ["-E", "-P", "-dD"]))
        break
else:
    sys.exit(f"error: {sys.argv[1]} belongs to no target of build/tidy")
PYTHON
}

tidy_one() {
  local file=$1 command text
  command=$(preprocessing_of "$file") || return 1
  text=$(set -o pipefail; bash -c "$command" | cat - <(printf '%s' "$file $rules") | sha256sum | cut -c -64) || return 1
  [[ ! -e build/tidy/passed/$text ]] || return 0
  # shellcheck disable=SC2086  # there may be two options, or none
  clang-tidy-14 -p build/tidy --quiet ${TIDY_OPTIONS-} "$file" || return 1
  touch "build/tidy/passed/$text"
}
export -f preprocessing_of tidy_one

say "clang-tidy over ${#files[@]} files"
# shellcheck disable=SC2016  # the inner shell expands it
printf '%s\0' "${files[@]}" | xargs -0 -P "$JOBS" -I '{}' bash -c 'tidy_one "$1"' _ '{}' >&2
