#include "engine/answer.h"

#include <algorithm>

#include "base/units.h"

namespace troika::engine {
namespace {

// Is the room in tokens that is taken at once for an answer of unlimited length, and for its text.
constexpr int kUsualTokens = 8192;
constexpr size_t kBytesOfToken = 8;

bool is_set(const std::atomic<bool>* cancel) {
  return cancel != nullptr && cancel->load(std::memory_order_relaxed);
}

}  // namespace

const char* stop_name(Stop stop) {
  switch (stop) {
    case Stop::kEnd:
      return "end";
    case Stop::kLength:
      return "length";
    case Stop::kString:
      return "string";
    case Stop::kContext:
      return "context";
    case Stop::kCancelled:
      return "cancelled";
  }
  return "?";
}

double Generated::prefill_tokens_per_s() const {
  return prefill_seconds > 0 ? n_computed / prefill_seconds : 0.0;
}

double Generated::decode_tokens_per_s() const {
  return decode_seconds > 0 ? (static_cast<double>(tokens.size()) - 1.0) / decode_seconds : 0.0;
}

Answer::Answer(const Engine& engine, const GenerateOptions& options, const TextSink& sink)
    : clock_(engine.machine().clock()),
      tokenizer_(engine.tokenizer()),
      options_(options),
      sink_(sink),
      stream_(tokenizer_, {options.stops, options.shows_control, false}),
      first_token_us_(clock_.now_us()),
      last_step_us_(first_token_us_) {
  const bool is_limited = options.most_tokens >= 0 && options.most_tokens < kUsualTokens;
  const auto n_tokens = static_cast<size_t>(is_limited ? options.most_tokens : kUsualTokens);
  result_.tokens.reserve(n_tokens);
  result_.text.reserve(n_tokens * kBytesOfToken);
  result_.step_ms.reserve(n_tokens);
}

bool Answer::must_stop(const Session& session) {
  if (!goes_on_) return true;
  if (is_set(options_.cancel)) {
    result_.stop = Stop::kCancelled;
  } else if (options_.most_tokens >= 0 &&
             result_.tokens.size() >= static_cast<size_t>(options_.most_tokens)) {
    result_.stop = Stop::kLength;
  } else if (session.history().size() >= static_cast<size_t>(session.context())) {
    result_.stop = Stop::kContext;
  } else {
    return false;
  }
  goes_on_ = false;
  return true;
}

void Answer::cancel() {
  result_.stop = Stop::kCancelled;
  goes_on_ = false;
}

int Answer::most_in_a_step() const {
  if (options_.most_tokens < 0) return draft::kMostWidth;
  return std::min(draft::kMostWidth,
                  options_.most_tokens - static_cast<int>(result_.tokens.size()));
}

void Answer::show(const std::string& fragment) {
  if (fragment.empty()) return;
  result_.text += fragment;
  if (sink_) sink_(fragment, stream_.n_shown());
}

bool Answer::take_one(Token token, bool is_drafted) {
  result_.tokens.push_back(token);
  if (options_.on_token) options_.on_token(token, is_drafted);
  if (is_end(token)) {
    result_.stop = Stop::kEnd;
    return false;
  }
  show(stream_.push(token));
  if (stream_.stopped()) {
    result_.stop = Stop::kString;
    result_.stop_string = stream_.stop();
  }
  return !stream_.stopped();
}

void Answer::take(Session& session, const Session::Stepped& step) {
  const double now_us = clock_.now_us();
  if (result_.tokens.empty()) {
    first_token_us_ = now_us;
  } else {
    ++result_.n_steps;
    result_.step_ms.push_back((now_us - last_step_us_) / kUsPerMs);
  }
  last_step_us_ = now_us;
  const size_t n_before = session.history().size() - static_cast<size_t>(step.n_tokens);
  int n_taken = 0;
  while (goes_on_ && n_taken < step.n_tokens) {
    if (n_taken > 0 && is_set(options_.cancel)) break;
    const Token token = session.history()[n_before + static_cast<size_t>(n_taken)];
    goes_on_ = take_one(token, n_taken < step.n_drafted);
    ++n_taken;
  }
  session.truncate(static_cast<int>(n_before) + n_taken);
}

Generated Answer::finish() {
  show(stream_.finish());
  result_.decode_seconds =
      result_.n_steps > 0 ? (clock_.now_us() - first_token_us_) / kUsPerS : 0.0;
  return std::move(result_);
}

}  // namespace troika::engine
