#include "engine/generate.h"

#include <chrono>

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
  return decode_seconds > 0 && n_steps > 0 ? n_steps / decode_seconds : 0.0;
}

Generated generate(Session& session, std::span<const Token> prompt, Sampler& sampler,
                   const GenerateOptions& options, const TextSink& sink) {
  const text::Tokenizer& tokenizer = session.engine().tokenizer();
  Generated g;
  const Clock::time_point start = Clock::now();
  g.n_prompt = static_cast<int>(prompt.size());
  g.n_computed = session.prefill(prompt, options.cancel);
  g.prefill_seconds = seconds_since(start);

  text::TextStream stream(tokenizer, {options.stops, false, false});
  const auto show = [&](const std::string& piece) {
    if (piece.empty()) return;
    g.text += piece;
    if (sink) sink(piece);
  };
  Clock::time_point first_token = Clock::now();
  while (!must_stop(session, options, &g)) {
    const Token token = session.next(sampler);
    g.tokens.push_back(token);
    if (g.tokens.size() == 1) {
      first_token = Clock::now();
    } else {
      ++g.n_steps;
    }
    if (tokenizer.is_end(token) && !options.ignore_end) {
      g.stop = Stop::kEnd;
      break;
    }
    show(stream.push(token));
    if (stream.stopped()) {
      g.stop = Stop::kString;
      break;
    }
  }
  show(stream.finish());
  g.decode_seconds = g.n_steps > 0 ? seconds_since(first_token) : 0.0;
  return g;
}

}  // namespace troika::engine
