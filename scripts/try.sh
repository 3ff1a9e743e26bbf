#!/usr/bin/env bash
# Installs what is missing, builds, and generates text with the built-in model.
#
#   scripts/try.sh [--real] [options of `troika run`]     for example: scripts/try.sh -p "A horse" -n 100
#
# --real talks to a trained chat model of the world outside, which scripts/real_model.py fetches.
set -euo pipefail
here=$PWD  # where files that options name are looked for
# shellcheck source=scripts/lib.sh
source "$(dirname "$0")/lib.sh"

real=false
if [[ ${1-} == --real ]]; then
  real=true
  shift
fi

groups=(build)
if $real; then groups+=(real); fi
scripts/packages.sh "${groups[@]}"
build_program

built_in=models/troika-silu-q8_0.gguf
ask=(-p "Once upon a time")
if $real; then
  model=$(scripts/real_model.py)
  ask=(--chat -p "What is the capital of France, and what is it known for?")
  say "Run $model"
elif [[ -f $built_in ]]; then
  model=$built_in
  ask=(--chat -p "Tell me a story about a dog and a ball.")
  say "Run the built-in model $model"
else
  model=build/models/tiny-llama-q8_0.gguf
  if [[ ! -f $model ]]; then
    say "Make a model of random weights: $model"
    mkdir -p "$(dirname "$model")"
    build/release/troika synth --like tiny-llama --type q8_0 "$model.part" >&2
    mv "$model.part" "$model"
  fi
  say "Run $model. Its weights are random, so its text is noise: it shows that the engine runs"
fi

has_prompt=false
for argument in "$@"; do
  case $argument in -p* | --prompt* | -f* | --file* | -) has_prompt=true ;; esac
done
$has_prompt || set -- "${ask[@]}" "$@"
[[ $model == /* ]] || model=$ROOT/$model
cd "$here"
exec "$ROOT/build/release/troika" run "$model" "$@"
