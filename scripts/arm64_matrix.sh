#!/usr/bin/env bash
# Runs the static arm64 program under qemu as several processors: each must choose the kernels that its
# features allow, and all must write the same text with the models of the house.
#
#   scripts/arm64_matrix.sh [PROGRAM]      (build/arm64/troika)
#
# Prints a line for each processor: the kernels that it chose. The text is that of build/release/troika on this one.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

program=${1:-build/arm64/troika}
# A processor of qemu, and the kernels that come first on it.
matrix=("max i8mm" "cortex-a76 neon" "neoverse-n1 neon" "cortex-a72 reference" "cortex-a53 reference")
models=(models/troika-silu-q8_0.gguf models/troika-relu-q8_0.gguf)

[[ -x $program ]] || die "$program is not there: cmake --build build/arm64 --target troika"
headers=$(aarch64-linux-gnu-readelf -l "$program")
if [[ $headers == *INTERP* ]]; then die "$program is not static"; fi

# text MODEL COMMAND...: what it writes after a prompt, most likely tokens only. The prompt is computed
# as single tokens are, so that one numerics class does all; the weights are copied, so that 16 rows of
# them stand side by side where the kernels read that.
text() {
  local model=$1
  shift
  "$@" run "$model" -p "One day the little fox" -n 40 --temp 0 --threads 1 --prefill same --load copy --no-cache
}

declare -A wanted=()
[[ -x build/release/troika ]] || die "build/release/troika is not there: cmake --build --preset release --target troika"
for model in "${models[@]}"; do
  wanted[$model]=$(text "$model" build/release/troika) || die "build/release/troika fails with $model"
done
for row in "${matrix[@]}"; do
  read -r cpu kernels <<<"$row"
  found=$(qemu-aarch64 -cpu "$cpu" "$program" --version | sed -n 's/^kernels: \([a-z0-9_]*\).*/\1/p')
  [[ $found == "$kernels" ]] || die "$cpu chose the kernels '$found', not '$kernels'"
  for model in "${models[@]}"; do
    written=$(text "$model" qemu-aarch64 -cpu "$cpu" "$program") || die "$cpu: the program fails with $model"
    [[ -n $written ]] || die "$cpu writes nothing with $model"
    [[ $written == "${wanted[$model]}" ]] || die "$cpu writes '$written' with $model, not '${wanted[$model]}'"
  done
  printf '%-12s %-10s %s\n' "$cpu" "$found" "the same text with ${#models[@]} models"
done
for model in "${models[@]}"; do printf '\n%s\n%s\n' "$model" "${wanted[$model]}"; done
