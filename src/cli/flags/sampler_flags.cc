#include "cli/flags/sampler_flags.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <random>
#include <utility>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/output.h"

namespace troika::cli {

void SamplerFlags::add_to(Command& command) {
  if (!are_defaults) command.before([this, &command] { note_idle(command); });
  command.begin_group(kSamplingGroup);
  command.add_option("--temp", options.temperature, "Temperature; 0 takes the most likely token")
      ->capture_default_str();
  command.add_option("--top-k", options.top_k, "Keep the k most likely tokens; 0 is off")
      ->capture_default_str();
  command.add_option("--top-p", options.top_p, "Keep the most likely tokens up to this share")
      ->capture_default_str();
  command
      .add_option("--min-p", options.min_p, "Drop tokens below this share of the most likely one")
      ->capture_default_str();
  command
      .add_option("--repeat-penalty", options.repetition_penalty,
                  "Divide the logits of the --penalty-window last tokens by X; 1 is off")
      ->capture_default_str();
  command.add_option(
      "--frequency-penalty", options.frequency_penalty,
      "Take X off a token's logit for each time it is among the --penalty-window last tokens");
  command.add_option("--presence-penalty", options.presence_penalty,
                     "Take X off the logits of the --penalty-window last tokens");
  command
      .add_option("--penalty-window", options.penalty_window,
                  "How many of the last tokens the penalties look at; -1 is all")
      ->capture_default_str();
  command.add_option("--logit-bias", biases, "TOKEN=BIAS: add to a token's logit (repeatable)");
  seed = command.add_option("--seed", options.seed,
                            "The same seed gives the same text (default: another seed each time)");
  command.end_group();
}

void SamplerFlags::note_idle(const Command& command) const {
  const auto say = [&](const char* name, const char* why) {
    if (command.is_given(name)) note(fmt::format("note: {} does nothing here: {}\n", name, why));
  };
  if (options.temperature == 0.0f) {
    for (const char* name : {"--top-k", "--top-p", "--min-p", "--seed"}) {
      say(name, "--temp 0 takes the most likely token");
    }
  }
  if (!has_penalty()) say("--penalty-window", "no penalty is given");
  if (options.penalty_window == 0) {
    for (const char* name : {"--repeat-penalty", "--frequency-penalty", "--presence-penalty"}) {
      say(name, "--penalty-window 0 looks at no token");
    }
  }
}

bool SamplerFlags::has_penalty() const {
  return options.repetition_penalty != 1.0f || options.frequency_penalty != 0.0f ||
         options.presence_penalty != 0.0f;
}

namespace {

// Reads "29=-5": a token and a bias, which may be -inf. Throws UsageError.
std::pair<int, float> parse_bias(const std::string& text) {
  const char* end = text.data() + text.size();
  int token = 0;
  float bias = 0.0f;
  const auto number = std::from_chars(text.data(), end, token);
  bool ok = number.ec == std::errc() && token >= 0 && number.ptr != end && *number.ptr == '=';
  if (ok) {
    const auto value = std::from_chars(number.ptr + 1, end, bias);
    // A bias may forbid a token for good, but an infinite wish for one makes no sense.
    ok = value.ec == std::errc() && value.ptr == end && bias < INFINITY;
  }
  if (ok) return {token, bias};
  throw UsageError(fmt::format(
      "--logit-bias '{}' is not understood. Write TOKEN=BIAS, for example 29=-5.", text));
}

}  // namespace

engine::SamplerOptions SamplerFlags::checked() const {
  engine::SamplerOptions checked = options;
  for (const std::string& text : biases) checked.logit_bias.push_back(parse_bias(text));
  if (seed->count() == 0) checked.seed = std::random_device{}();
  return checked;
}

void SamplerFlags::check_tokens(const engine::Engine& engine) const {
  const int n_tokens = engine.blueprint().n_vocab;
  for (const std::string& text : biases) {
    if (parse_bias(text).first < n_tokens) continue;
    throw UsageError(
        fmt::format("--logit-bias '{}': the model's tokens are 0 to {}. 'troika "
                    "tokenize' shows those of a text.",
                    text, n_tokens - 1));
  }
}

}  // namespace troika::cli
