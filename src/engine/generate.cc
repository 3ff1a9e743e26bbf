#include "engine/generate.h"

#include <algorithm>
#include <chrono>

#include "engine/prompt_logits.h"
#include "text/stream.h"

namespace troika::engine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool is_set(const std::atomic<bool>* cancel) {
  return cancel != nullptr && cancel->load(std::memory_order_relaxed);
}

// Whether to stop before another token is sampled.
bool must_stop(const Session& session, const GenerateOptions& options, Generated* g) {
  if (is_set(options.cancel)) {
    g->stop = Stop::kCancelled;
  } else if (options.most_tokens >= 0 &&
             g->tokens.size() >= static_cast<size_t>(options.most_tokens)) {
    g->stop = Stop::kLength;
  } else if (session.history().size() >= static_cast<size_t>(session.context())) {
    g->stop = Stop::kContext;
  } else {
    return false;
  }
  return true;
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

namespace {

// How many tokens may still come: as many as were asked for.
int most_in_a_step(const GenerateOptions& options, const Generated& g) {
  if (options.most_tokens < 0) return draft::kMostWidth;
  return std::min(draft::kMostWidth, options.most_tokens - static_cast<int>(g.tokens.size()));
}

}  // namespace

Generated generate(Session& session, std::span<const Token> prompt, Sampler& sampler,
                   const GenerateOptions& options, const TextSink& sink) {
  const text::Tokenizer& tokenizer = session.engine().tokenizer();
  Generated g;
  const Clock::time_point start = Clock::now();
  g.n_prompt = static_cast<int>(prompt.size());
  const int coverage = options.drafter != nullptr ? options.drafter->coverage() : 0;
  PromptLogits likely(coverage);
  g.n_computed = session.prefill(prompt, options.cancel, coverage > 0 ? &likely : nullptr);
  g.calibration_seconds = likely.ms() / 1e3;
  if (options.drafter != nullptr) {
    options.drafter->begin(session.history());
    options.drafter->calibrate(likely.likely());
  }
  g.prefill_seconds = seconds_since(start);

  text::TextStream stream(tokenizer, {options.stops, false, false});
  const auto show = [&](const std::string& piece) {
    if (piece.empty()) return;
    g.text += piece;
    if (sink) sink(piece);
  };
  const auto is_end = [&](Token token) { return tokenizer.is_end(token) && !options.ignore_end; };
  // Takes one token over; false: it was the last.
  const auto take = [&](Token token, bool is_drafted) {
    g.tokens.push_back(token);
    if (options.on_token) options.on_token(token, is_drafted);
    if (is_end(token)) {
      g.stop = Stop::kEnd;
      return false;
    }
    show(stream.push(token));
    if (stream.stopped()) g.stop = Stop::kString;
    return !stream.stopped();
  };
  Clock::time_point first_token = Clock::now();
  bool goes_on = true;
  while (goes_on && !must_stop(session, options, &g)) {
    const size_t n_before = session.history().size();
    Session::Stepped step = {1, 0};
    if (options.drafter != nullptr) {
      step = session.step(sampler, *options.drafter, most_in_a_step(options, g), is_end);
    } else {
      session.next(sampler);
    }
    if (g.tokens.empty()) {
      first_token = Clock::now();
    } else {
      ++g.n_steps;
    }
    int n_taken = 0;
    while (goes_on && n_taken < step.n_tokens) {
      if (n_taken > 0 && is_set(options.cancel)) break;
      const Token token = session.history()[n_before + static_cast<size_t>(n_taken)];
      goes_on = take(token, n_taken < step.n_drafted);
      ++n_taken;
    }
    // What came behind the end of the answer was never there.
    session.truncate(static_cast<int>(n_before) + n_taken);
  }
  show(stream.finish());
  g.decode_seconds = g.n_steps > 0 ? seconds_since(first_token) : 0.0;
  return g;
}

}  // namespace troika::engine
