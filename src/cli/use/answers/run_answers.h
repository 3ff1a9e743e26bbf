// Serves troika run --answers N: several answers to one prompt, computed together; with --best N
// the most likely of them (P9).
#pragma once

#include <vector>

#include "cli/flags/engine_flags.h"
#include "cli/use/drafting.h"
#include "cli/use/grammar_flags.h"
#include "engine/engine.h"
#include "engine/generate.h"

namespace troika::cli {

struct AnswersRequest {
  int n_answers = 1;
  std::vector<cache::Token> prompt;
  // Is for the first answer; answer i has a seed that is larger by i.
  engine::SamplerOptions sampler;
  engine::GenerateOptions options;  // without a drafter: each answer gets its own
  // Holds each answer to a grammar; may be null.
  std::shared_ptr<grammar::Grammar> grammar;
  engine::Watch watch;  // sees all passes
  bool is_json = false;
  bool is_best = false;  // only the most likely answer is shown
};

// Prints the answers in their order. Throws Error.
void run_answers(engine::Engine& engine, const EngineFlags& flags, const DraftFlags& draft,
                 const GrammarFlags& grammar, const AnswersRequest& request,
                 const TaskHistory& history);

}  // namespace troika::cli
