#include "engine/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "base/random.h"
#include "base/system.h"
#include "base/team.h"

namespace troika::engine {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

Rate summarise(int n_tokens, const std::vector<double>& rates) {
  return {n_tokens, median(rates), *std::min_element(rates.begin(), rates.end()),
          *std::max_element(rates.begin(), rates.end())};
}

// Seeded tokens; which ones makes no difference to the time.
std::vector<Token> random_tokens(int n, int n_vocab) {
  std::vector<Token> tokens(static_cast<size_t>(n));
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<Token>(random_bits(1, i) % static_cast<uint64_t>(n_vocab));
  }
  return tokens;
}

double prefill_seconds(Session& session, const std::vector<Token>& tokens) {
  session.truncate(0);
  const Clock::time_point start = Clock::now();
  session.prefill(tokens);
  return seconds_since(start);
}

// One rate: the mean over the steps of a repetition.
double decode_rate(Session& session, const std::vector<Token>& context, int n_tokens) {
  SamplerOptions greedy;
  greedy.temperature = 0.0f;
  Sampler sampler(greedy);
  session.truncate(0);
  session.prefill(context);
  session.next(sampler);
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < n_tokens; ++i) session.next(sampler);
  return n_tokens / seconds_since(start);
}

}  // namespace

double measure_read_gb_s(int n_threads) {
  // Far more than last caches hold (480 MB are reported on large servers), within memory.
  constexpr size_t kWantedBytes = size_t{2} << 30;
  const size_t bytes = std::min(kWantedBytes, available_memory_bytes() / 4) / 64 * 64;
  const size_t n_words = bytes / sizeof(uint64_t);
  const std::unique_ptr<uint64_t[]> buffer(new uint64_t[n_words]);
  Team team(n_threads);
  std::vector<uint64_t> sums(static_cast<size_t>(n_threads) * 8);
  const auto for_part = [&](auto&& body) {
    team.run([&](int worker) {
      const Part part = part_of(static_cast<int64_t>(n_words), worker, n_threads, 64);
      body(worker, buffer.get() + part.begin, static_cast<size_t>(part.end - part.begin));
    });
  };
  for_part([](int, uint64_t* words, size_t n) { std::memset(words, 1, n * sizeof(uint64_t)); });
  std::vector<double> rates;
  for (int run = 0; run < 5; ++run) {
    const Clock::time_point start = Clock::now();
    for_part([&](int worker, const uint64_t* words, size_t n) {
      // Eight sums, so that the compiler's vector code waits for memory and not for additions.
      uint64_t sum[8] = {};
      for (size_t i = 0; i + 8 <= n; i += 8) {
        for (size_t j = 0; j < 8; ++j) sum[j] += words[i + j];
      }
      for (size_t j = 0; j < 8; ++j) sums[static_cast<size_t>(worker) * 8 + j] += sum[j];
    });
    rates.push_back(static_cast<double>(bytes) / seconds_since(start) * 1e-9);
  }
  // The sums are used, so that the reads cannot be dropped.
  TROIKA_ASSERT(sums[0] != 0);
  return median(rates);
}

Measurement measure(Session& session, const MeasureOptions& options,
                    const ProgressFunction& progress) {
  Engine& engine = session.engine();
  const int n_vocab = engine.blueprint().n_vocab;
  const int longest =
      options.prefill_tokens.empty()
          ? 0
          : *std::max_element(options.prefill_tokens.begin(), options.prefill_tokens.end());
  const int needed =
      std::max(longest, std::max(options.decode_context, 1) + options.decode_tokens + 2);
  if (needed > session.context()) {
    throw Error(
        fmt::format("The measurement needs {} tokens of context, and there are {}. Use "
                    "--context {} or smaller lengths.",
                    needed, session.context(), needed));
  }
  Measurement m;
  const uint64_t n_parts = options.prefill_tokens.size() + 2;
  uint64_t n_done = 0;
  const auto step = [&] {
    if (progress) progress(++n_done, n_parts);
  };
  // The first pass brings the file into memory and wakes the cores; it is not counted.
  const std::vector<Token> warm_up = random_tokens(8, n_vocab);
  const double first_pass = prefill_seconds(session, warm_up);
  const double second_pass = prefill_seconds(session, warm_up);
  m.is_cold = first_pass > 3 * second_pass + 0.05;

  for (const int n : options.prefill_tokens) {
    const std::vector<Token> tokens = random_tokens(n, n_vocab);
    std::vector<double> rates;
    std::vector<double> seconds;
    for (int i = 0; i < options.repetitions; ++i) {
      seconds.push_back(prefill_seconds(session, tokens));
      rates.push_back(n / seconds.back());
    }
    if (m.prefill.empty()) m.first_token_s = median(seconds);
    m.prefill.push_back(summarise(n, rates));
    step();
  }
  const int context = std::max(options.decode_context, 1);
  if (options.decode_tokens > 0) {
    const std::vector<Token> before = random_tokens(context, n_vocab);
    std::vector<double> rates(static_cast<size_t>(options.repetitions));
    for (double& rate : rates) rate = decode_rate(session, before, options.decode_tokens);
    m.decode = summarise(options.decode_tokens, rates);
  }
  step();
  session.truncate(0);
  m.peak_bytes = peak_resident_bytes();
  m.read_gb_s = measure_read_gb_s(engine.plan().n_threads());
  const cache::KvShape shape{engine.blueprint().n_layers, engine.blueprint().n_kv_heads,
                             engine.blueprint().head_dim, engine.plan().kv_type, 0};
  m.decode_bytes =
      static_cast<double>(engine.weights().bytes_per_step()) +
      static_cast<double>(shape.bytes_per_token()) * (context + options.decode_tokens / 2.0);
  m.fraction_of_bandwidth = m.decode.median * m.decode_bytes / (m.read_gb_s * 1e9);
  m.fits_last_cache = m.decode_bytes < static_cast<double>(last_cache_bytes());
  step();
  return m;
}

}  // namespace troika::engine
