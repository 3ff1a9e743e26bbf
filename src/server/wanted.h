// What a request asks of its answers, whichever interface it came by.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/scoring/logprobs.h"
#include "grammar/grammar.h"
#include "server/fields.h"
#include "text/tokenizer.h"

namespace troika::server {

struct Wanted {
  std::vector<std::vector<engine::Token>> prompts;
  int n_returned = 1;  // answers to each prompt
  int n_computed = 1;  // of which the most likely ones are returned
  engine::SamplerOptions sampler;
  int most_tokens = -1;
  std::vector<std::string> stops;
  bool ignores_end = false;
  bool shows_control = false;  // the text has the names of control tokens
  int n_logprobs = -1;         // most likely tokens beside the one that was taken; -1: none at all
  engine::Likelihoods likelihoods = engine::Likelihoods::kOfModel;
  bool is_stream = false;
  bool wants_usage = false;                            // in a stream
  bool wants_progress = false, wants_timings = false;  // there too
  bool wants_tokens = false;                           // with their text
  bool shows_prompt = false;                           // beside the answer, as it was computed
  std::shared_ptr<grammar::Grammar> grammar;

  int n_answers() const { return n_computed * static_cast<int>(prompts.size()); }
};

// Fields that have the same name and meaning in the interfaces of OpenAI and here: how tokens are
// chosen, where answers end, whether they stream. `sampler` are the values of what is not said.
// Throws Refused.
void read_sampling(Fields& fields, const text::Tokenizer& tokenizer,
                   const engine::SamplerOptions& sampler, Wanted* wanted);

// A text, or a list of them.
std::vector<std::string> read_stops(Fields& fields, const std::string& name);

// What clients say of themselves, and what asks for nothing that a server of one model could do.
void ignore_remarks(Fields& fields);

// Answers to one request; more of them are no request but an attack.
inline constexpr int kMostAnswers = 128;
inline constexpr int kMostLogprobs = 20;

}  // namespace troika::server
