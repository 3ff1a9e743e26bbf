// Holds what a request asks of its answers, whichever interface it came by.
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
  int n_returned = 1;  // counts answers to each prompt
  int n_computed = 1;  // counts answers of which the most likely are returned
  engine::SamplerOptions sampler;
  int most_tokens = -1;
  std::vector<std::string> stops;
  bool ignores_end = false;
  bool shows_control = false;  // says that the text has the names of control tokens
  int n_logprobs = -1;         // most likely tokens beside the one that was taken; -1: none at all
  engine::Likelihoods likelihoods = engine::Likelihoods::kOfModel;
  bool is_stream = false;
  bool repeats_at_end = false;  // says that a stream tells all of the answer once more at its end
  bool wants_usage = false;     // asks for the usage at a stream's end
  bool wants_progress = false, wants_timings = false;  // in a stream too
  bool wants_tokens = false;                           // asks for tokens beside their text
  bool shows_prompt = false;                           // asks for the prompt as it was computed
  std::shared_ptr<grammar::Grammar> grammar;

  int n_answers() const { return n_computed * static_cast<int>(prompts.size()); }
  // Says that likelihoods of all tokens are kept until the answers end, to be told together.
  bool gathers_likelihoods() const {
    return n_logprobs >= 0 && (!is_stream || repeats_at_end || n_computed > n_returned);
  }
};

// Reads the fields that interfaces share: how tokens are chosen, where answers end, and whether
// they stream. `sampler` has the values of fields that are missing. Throws Refused.
void read_sampling(Fields& fields, const text::Tokenizer& tokenizer,
                   const engine::SamplerOptions& sampler, Wanted* wanted);

// Reads a field that is a text or a list of texts.
std::vector<std::string> read_stops(Fields& fields, const std::string& name);

// Ignores fields in which clients tell about themselves, and fields that ask for nothing that a
// server of one model could do.
void ignore_remarks(Fields& fields);

// Limits the answers to one request. A request for more is taken for an attack.
inline constexpr int kMostAnswers = 128;
inline constexpr int kMostLogprobs = 20;

}  // namespace troika::server
