// Makes an engine of flags, and tells about it.
#pragma once

#include <memory>
#include <string>

#include "cli/flags/engine_flags.h"
#include "engine/engine.h"

namespace troika::cli {

// Throws UsageError where the model is the name of a shape without weights, which only phones
// compute, and this machine is to compute it. load() does so; whoever opens the file itself calls
// it first.
void refuse_known_name(const prepare::Options& options);

// Notes that the file does not name its tokenizer's pre-tokenizer, where that is so. load() does so
// of what is computed.
void note_pre(const text::Tokenizer& tokenizer);

// Loads the model, with a note on standard error about the context that was chosen.
std::unique_ptr<engine::Engine> load(const EngineFlags& flags);

// Returns "bf16 (auto: ...), 12.3 MB packed in 0.4 s": how prompts are computed, and why so.
std::string prefill_text(const engine::Engine& engine);

// Returns a text as "attention sparse: 20 % of the positions from 1024 on, by head".
std::string attention_text(const plan::Plan& plan);

}  // namespace troika::cli
