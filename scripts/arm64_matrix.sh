#!/usr/bin/env bash
# Runs the static arm64 program under qemu as several processors: each must choose the kernels that its
# features allow, and all must write the same text with a model of the house.
#
#   scripts/arm64_matrix.sh [PROGRAM]      (build/arm64/troika)
#
# Where build/release/troika is there, its text on this processor must be the same too.
set -euo pipefail
# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

program=${1:-build/arm64/troika}
model=models/troika-silu-q8_0.gguf
question=(run "$model" -p "The little fox" -n 12 --temp 0 --threads 1 --prefill same --no-cache)
# A processor of qemu, and the kernels that come first on it.
matrix=("max i8mm" "cortex-a76 neon" "neoverse-n1 neon" "cortex-a72 reference" "cortex-a53 reference")

file "$program" | grep -q 'statically linked' || die "$program is not static"
wanted=
if [[ -x build/release/troika ]]; then
  wanted=$(build/release/troika "${question[@]}" 2>/dev/null)
  say "this processor: $wanted"
fi
for row in "${matrix[@]}"; do
  read -r cpu kernels <<<"$row"
  found=$(qemu-aarch64 -cpu "$cpu" "$program" --version | sed -n '/^kernels:/{n;s/:.*//;p}')
  [[ $found == "$kernels" ]] || die "$cpu chose the kernels '$found', not '$kernels'"
  text=$(qemu-aarch64 -cpu "$cpu" "$program" "${question[@]}" 2>/dev/null) || die "$cpu: the program failed"
  [[ -n $text && (-z $wanted || $text == "$wanted") ]] || die "$cpu wrote '$text', not '$wanted'"
  wanted=$text
  say "$cpu: $kernels, the same text"
done
