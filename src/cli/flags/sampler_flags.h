// Adds the options of how tokens are chosen.
#pragma once

#include <string>
#include <vector>

#include "cli/options.h"
#include "engine/engine.h"
#include "engine/sampler.h"

namespace troika::cli {

// Lists the names of the options.
inline constexpr const char* kSamplerOptions[] = {"--temp",
                                                  "--top-k",
                                                  "--top-p",
                                                  "--min-p",
                                                  "--seed",
                                                  "--repeat-penalty",
                                                  "--logit-bias",
                                                  "--frequency-penalty",
                                                  "--presence-penalty",
                                                  "--penalty-window"};

// Holds the options of how tokens are chosen, and of the seed.
struct SamplerFlags {
  engine::SamplerOptions options;
  std::vector<std::string> biases;  // texts as TOKEN=BIAS
  Option* seed = nullptr;
  // Says that the values are for requests that give none of their own: then no value makes another
  // one idle. Is set before add_to().
  bool are_defaults = false;

  void add_to(Command& command);
  // Draws a seed where none was given.
  engine::SamplerOptions checked() const;
  // Says whether the last tokens count less than others.
  bool has_penalty() const;
  // Throws UsageError for a bias of a token that the model does not have.
  void check_tokens(const engine::Engine& engine) const;

 private:
  void note_idle(const Command& command) const;
};

}  // namespace troika::cli
