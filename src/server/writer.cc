#include "server/writer.h"

#include <fmt/format.h>

#include <cmath>
#include <random>
#include <utility>

#include "server/refusals.h"

namespace troika::server {

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json progress_json(const engine::PromptProgress& progress) {
  return {{"total", progress.n_prompt},
          {"cache", progress.n_known},
          {"processed", progress.n_read},
          {"time_ms", progress.seconds * 1e3}};
}

Json timings_json(const Timings& timings) {
  const auto rate = [](int n, double seconds) { return seconds > 0.0 ? n / seconds : 0.0; };
  const auto each_ms = [](int n, double seconds) { return n > 0 ? seconds * 1e3 / n : 0.0; };
  return {{"cache_n", timings.n_cached},
          {"prompt_n", timings.n_computed},
          {"prompt_ms", timings.prompt_seconds * 1e3},
          {"prompt_per_token_ms", each_ms(timings.n_computed, timings.prompt_seconds)},
          {"prompt_per_second", rate(timings.n_computed, timings.prompt_seconds)},
          {"predicted_n", timings.n_tokens},
          {"predicted_ms", timings.answer_seconds * 1e3},
          {"predicted_per_token_ms", each_ms(timings.n_tokens - 1, timings.answer_seconds)},
          {"predicted_per_second", rate(timings.n_tokens - 1, timings.answer_seconds)}};
}

std::string random_id(const std::string& prefix) {
  static constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  constexpr int kLength = 24;
  std::random_device device;
  std::uniform_int_distribution<size_t> letter(0, kLetters.size() - 1);
  std::string id = prefix;
  for (int i = 0; i < kLength; ++i) id += kLetters[letter(device)];
  return id;
}

double spread_share(uint32_t n) {
  constexpr double kGoldenRatio = 0.61803398874989485;
  const double turns = n * kGoldenRatio;
  return turns - std::floor(turns);
}

std::string event_head(std::string_view name) {
  return name.empty() ? "data: " : fmt::format("event: {}\ndata: ", name);
}

EventStream::EventStream(std::shared_ptr<http::Exchange> exchange)
    : exchange_(std::move(exchange)) {
  static std::atomic<uint32_t> n_streams = 0;
  first_share_ = spread_share(n_streams.fetch_add(1));
}

void EventStream::begin() {
  exchange_->begin({200, "text/event-stream", "", {{"cache-control", "no-cache"}}});
  last_.store(Clock::now().time_since_epoch().count());
  is_open_.store(true);
}

void EventStream::line(std::string text) {
  last_.store(Clock::now().time_since_epoch().count());
  exchange_->write(std::move(text));
}

void EventStream::event(const Json& data, std::string_view name) {
  line(event_head(name).append(dump(data)).append(kEventEnd));
}

void EventStream::end() {
  is_open_.store(false);
  exchange_->end();
}

void EventStream::fail(const Failure& failure) {
  event({{"error",
          {{"message", for_clients(failure.why)},
           {"type", error_type(failure.status())},
           {"code", failure.status()}}}});
  end();
}

void EventStream::ping(double seconds, const char* text) {
  if (!is_open_.load() || exchange_->is_gone()) return;
  const Clock::duration now = Clock::now().time_since_epoch();
  const std::chrono::duration<double> waited = now - Clock::duration(last_.load());
  if (waited.count() < (was_pinged_ ? 1.0 : first_share_) * seconds) return;
  was_pinged_ = true;
  line(text);
}

void WholeAnswer::add(const Delta& delta) {
  logprobs.insert(logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
  switch (delta.kind) {
    case Delta::Kind::kText:
      text += delta.text;
      break;
    case Delta::Kind::kThought:
      thought += delta.text;
      break;
    case Delta::Kind::kCall:
      calls.push_back({delta.id, delta.text, ""});
      break;
    case Delta::Kind::kArguments:
      calls.back().arguments += delta.text;
      break;
  }
}

double WholeAnswer::mean_logprob() const { return engine::mean_logprob(logprobs); }

}  // namespace troika::server
