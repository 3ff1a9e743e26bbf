#include "server/reading/wanted.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include "base/os_error.h"

namespace troika::server {
namespace {

constexpr size_t kMostStops = 64;
// Limits the bytes of all stop strings together: each answer takes some 25 times as many for them.
constexpr size_t kMostStopBytes = size_t{64} << 10;
// Limits the texts of biases together: while they are made tokens of, no other request is read.
constexpr size_t kMostBiasBytes = size_t{64} << 10;
constexpr float kMostTemperature = 100.0f;
constexpr float kLeastTopP = 1e-6f;  // stands for 0, which asks for the most likely token
constexpr float kNever = -std::numeric_limits<float>::infinity();
constexpr double kMostBias = 1e9;

engine::Token token_from(Fields& fields, const std::string& text,
                         const text::Tokenizer& tokenizer) {
  engine::Token token = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), token);
  if (error != std::errc() || end != text.data() + text.size() || !tokenizer.is_token(token)) {
    fields.fail("logit_bias", fmt::format("names the token {}, which is none of the model's, whose "
                                          "tokens are 0 to {}",
                                          troika::quoted(text), tokenizer.n_tokens() - 1));
  }
  return token;
}

float bias_from(Fields& fields, const Json& value) {
  if (value.is_boolean() && !value.get<bool>()) return kNever;
  if (!value.is_number()) fields.fail("logit_bias", "must give numbers to tokens");
  const double bias = value.get<double>();
  if (std::abs(bias) > kMostBias) {
    fields.fail("logit_bias", fmt::format("gives {} to a token; at most {} is possible. false "
                                          "forbids a token",
                                          bias, kMostBias));
  }
  return static_cast<float>(bias);
}

// The biases of tokens. Each token has one, however often a request names it: they are added up,
// and every answer to the request keeps them and adds them in each step.
using Biases = std::map<engine::Token, float>;

// Adds up what names of tokens mean.
class BiasReader {
 public:
  BiasReader(Fields& fields, const text::Tokenizer& tokenizer)
      : fields_(fields), tokenizer_(tokenizer) {}

  // Adds biases of the tokens that `name` means. A name that is no number is a text and means all
  // of the text's tokens, as clients of llama.cpp write it.
  void add(const std::string& name, float bias) {
    if (!name.empty() && name.find_first_not_of("0123456789") == std::string::npos) {
      biases_[token_from(fields_, name, tokenizer_)] += bias;
      return;
    }
    n_text_bytes_ += name.size();
    if (n_text_bytes_ > kMostBiasBytes) {
      fields_.fail("logit_bias", fmt::format("has texts of more than {} bytes together; name "
                                             "tokens by their numbers instead",
                                             kMostBiasBytes));
    }
    for (const engine::Token token :
         tokenizer_.encode(name, {.add_special = false, .parse_special = false})) {
      biases_[token] += bias;
    }
  }
  Biases& biases() { return biases_; }

 private:
  Fields& fields_;
  const text::Tokenizer& tokenizer_;
  Biases biases_;
  size_t n_text_bytes_ = 0;
};

// Reads biases as {"15043": -100} or [[15043, -100]].
Biases read_biases(Fields& fields, const text::Tokenizer& tokenizer) {
  BiasReader reader(fields, tokenizer);
  const Json* const value = fields.find("logit_bias");
  if (value == nullptr) return {};
  if (value->is_object()) {
    for (const auto& [name, bias] : value->items()) {
      reader.add(name, bias_from(fields, bias));
    }
    return std::move(reader.biases());
  }
  if (!value->is_array()) fields.fail("logit_bias", "must be an object of tokens and numbers");
  for (const Json& pair : *value) {
    if (!pair.is_array() || pair.size() != 2 ||
        (!pair[0].is_number_unsigned() && !pair[0].is_string())) {
      fields.fail("logit_bias", "must be an object of tokens and numbers");
    }
    const std::string name =
        pair[0].is_string() ? pair[0].get<std::string>() : std::string(pair[0].dump());
    reader.add(name, bias_from(fields, pair[1]));
  }
  return std::move(reader.biases());
}

void check_some_are_allowed(Fields& fields, const text::Tokenizer& tokenizer,
                            const Biases& biases) {
  const auto n_forbidden = std::count_if(biases.begin(), biases.end(),
                                         [](const auto& one) { return std::isinf(one.second); });
  if (n_forbidden < tokenizer.n_tokens()) return;
  fields.fail("logit_bias", "forbids every token, so that none may follow");
}

// Only what the client wrote is held to the limits: `otherwise` is no field of its request.
float between(Fields& fields, const std::string& name, float otherwise, float least, float most) {
  if (fields.find(name) == nullptr) return otherwise;
  const float value = fields.number(name, otherwise);
  if (value < least || value > most) {
    fields.fail(name, fmt::format("is {}, but must be from {} to {}", value, least, most));
  }
  return value;
}

// Reads a seed of up to 64 bits. Clients of llama.cpp write -1 where any seed will do. Every other
// number is a seed, and may have a sign.
void read_seed(Fields& fields, uint64_t* seed) {
  constexpr int64_t kNoSeed = -1;
  const Json* const value = fields.find("seed");
  if (value != nullptr && value->is_number_unsigned()) {
    *seed = value->get<uint64_t>();
  } else if (const int64_t given = fields.whole("seed", kNoSeed); given != kNoSeed) {
    *seed = static_cast<uint64_t>(given);
  }
}

// Reads the fields of samplers that other programs have and this one has not. Clients name all of
// them in every request, so a sampler that is off, and its settings, are accepted.
void read_absent_samplers(Fields& fields) {
  struct Absent {
    const char* name;
    float least_off, most_off;
    std::vector<const char*> settings;
  };
  static const Absent kAbsent[] = {
      {"typical_p", 1.0f, 1.0f, {}},
      {"mirostat", 0.0f, 0.0f, {"mirostat_tau", "mirostat_eta"}},
      {"dynatemp_range", 0.0f, 0.0f, {"dynatemp_exponent"}},
      {"xtc_probability", 0.0f, 0.0f, {"xtc_threshold"}},
      {"top_n_sigma", -1.0f, 0.0f, {}},
      {"adaptive_target", -1.0f, -1.0f, {"adaptive_decay"}},
      {"dry_multiplier",
       0.0f,
       0.0f,
       {"dry_base", "dry_allowed_length", "dry_penalty_last_n", "dry_sequence_breakers"}},
  };
  for (const Absent& absent : kAbsent) {
    const float value = fields.number(absent.name, absent.least_off);
    if (value < absent.least_off || value > absent.most_off) {
      fields.fail(absent.name, fmt::format("is {}, but this server has no such sampler: {} is off",
                                           value, absent.least_off));
    }
    for (const char* const setting : absent.settings) fields.ignore(setting);
  }
}

void read_stream(Fields& fields, Wanted* wanted) {
  wanted->is_stream = fields.flag("stream");
  wanted->wants_progress = fields.flag("return_progress") && wanted->is_stream;
  wanted->wants_timings = fields.flag("timings_per_token") && wanted->is_stream;
  const Json* const value = fields.find("stream_options");
  if (value == nullptr) return;
  if (!wanted->is_stream) fields.fail("stream_options", "is only for streams");
  Fields options(*value, "stream_options.");
  wanted->wants_usage = options.flag("include_usage");
  options.ignore("include_obfuscation");
  options.finish();
}

}  // namespace

std::vector<std::string> read_stops(Fields& fields, const std::string& name) {
  const Json* const value = fields.find(name);
  if (value == nullptr) return {};
  const Json list = value->is_string() ? Json::array({*value}) : *value;
  if (!list.is_array()) fields.fail(name, "must be a string or a list of strings");
  if (list.size() > kMostStops) {
    fields.fail(name,
                fmt::format("has {} strings; at most {} are looked for", list.size(), kMostStops));
  }
  std::vector<std::string> stops;
  size_t n_bytes = 0;
  for (const Json& stop : list) {
    if (!stop.is_string()) fields.fail(name, "must be a string or a list of strings");
    stops.push_back(stop.get<std::string>());
    n_bytes += stops.back().size();
  }
  if (n_bytes > kMostStopBytes) {
    fields.fail(name,
                fmt::format("has {} bytes; at most {} are looked for", n_bytes, kMostStopBytes));
  }
  return stops;
}

void ignore_remarks(Fields& fields) {
  for (const char* const name : {"model", "user", "metadata", "store", "service_tier",
                                 "prompt_cache_key", "prompt_cache_retention", "safety_identifier",
                                 "cache_prompt", "verbosity", "prediction", "id_slot"}) {
    fields.ignore(name);
  }
}

void read_sampling(Fields& fields, const text::Tokenizer& tokenizer,
                   const engine::SamplerOptions& sampler, Wanted* wanted) {
  engine::SamplerOptions& s = wanted->sampler;
  s = sampler;
  s.temperature = between(fields, "temperature", s.temperature, 0.0f, kMostTemperature);
  s.top_p = std::max(between(fields, "top_p", s.top_p, 0.0f, 1.0f), kLeastTopP);
  s.top_k = static_cast<int>(fields.whole("top_k", s.top_k, -1, tokenizer.n_tokens()));
  s.top_k = std::max(s.top_k, 0);  // other servers write -1 for off
  s.min_p = between(fields, "min_p", s.min_p, 0.0f, 0.999f);
  const float repeat = between(fields, "repetition_penalty", s.repetition_penalty, 0.01f, 100.0f);
  s.repetition_penalty = between(fields, "repeat_penalty", repeat, 0.01f, 100.0f);
  s.penalty_window = static_cast<int>(
      fields.whole("repeat_last_n", s.penalty_window, -1, std::numeric_limits<int>::max()));
  s.frequency_penalty = between(fields, "frequency_penalty", s.frequency_penalty, -100.0f, 100.0f);
  s.presence_penalty = between(fields, "presence_penalty", s.presence_penalty, -100.0f, 100.0f);
  read_absent_samplers(fields);
  const Biases biases = read_biases(fields, tokenizer);
  check_some_are_allowed(fields, tokenizer, biases);
  s.logit_bias.insert(s.logit_bias.end(), biases.begin(), biases.end());
  read_seed(fields, &s.seed);

  wanted->n_returned = static_cast<int>(fields.whole("n", 1, 1, kMostAnswers));
  wanted->n_computed = wanted->n_returned;
  wanted->stops = read_stops(fields, "stop");
  wanted->ignores_end = fields.flag("ignore_eos");
  read_stream(fields, wanted);
  ignore_remarks(fields);
}

}  // namespace troika::server
