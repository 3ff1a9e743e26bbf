#include "measure/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/clock.h"
#include "base/error.h"
#include "base/median.h"
#include "base/random.h"
#include "base/system.h"
#include "engine/memory/context_room.h"
#include "measure/prompt_peak.h"
#include "prepare/memory.h"

namespace troika::measure {
namespace {

using Clock = std::chrono::steady_clock;

// Counts the steps between two readings of memory's rate: where other programs use memory,
// too, its rate changes within a second.
constexpr int kStepsBetweenReadings = 8;
constexpr int kWarmUpTokens = 8;

TokenRate summarise(int n_tokens, const std::vector<double>& rates) {
  return {n_tokens, median(rates), *std::min_element(rates.begin(), rates.end()),
          *std::max_element(rates.begin(), rates.end())};
}

// Returns seeded tokens; which ones they are makes no difference to the time.
std::vector<cache::Token> random_tokens(int n, int n_vocab) {
  std::vector<cache::Token> tokens(static_cast<size_t>(n));
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<cache::Token>(random_bits(1, i) % static_cast<uint64_t>(n_vocab));
  }
  return tokens;
}

}  // namespace

double bytes_per_step(const engine::Engine& engine, double n_positions) {
  return static_cast<double>(engine.weights().bytes_per_step()) +
         kv_bytes_per_step(engine.blueprint(), prepare::kv_shape(engine.plan(), engine.blueprint()),
                           n_positions);
}

double prefill_seconds(engine::Session& session, int n_tokens) {
  const std::vector<cache::Token> tokens =
      random_tokens(n_tokens, session.engine().blueprint().n_vocab);
  session.truncate(0);
  const Clock::time_point start = Clock::now();
  session.prefill(tokens);
  return seconds_since(start);
}

bool warm_up(engine::Session& session) {
  const int n_tokens = std::min(kWarmUpTokens, session.context());
  const double first_pass = prefill_seconds(session, n_tokens);
  const double second_pass = prefill_seconds(session, n_tokens);
  return first_pass > 3 * second_pass + 0.05;
}

DecodeRun decode_run(engine::Session& session, int n_context, int n_tokens, ReadProbe* probe) {
  engine::SamplerOptions greedy;
  greedy.temperature = 0.0f;
  engine::Sampler sampler(greedy);
  const std::vector<cache::Token> tokens =
      random_tokens(n_context, session.engine().blueprint().n_vocab);
  session.prefill(tokens);
  session.next(sampler);
  const engine::Engine& engine = session.engine();
  const weights::NeuronSource::Computed before = computed_by_neuron(engine);
  double seconds = 0.0;
  std::vector<double> readings;
  if (probe != nullptr) readings.push_back(probe->gb_s());
  for (int i = 0; i < n_tokens; i += kStepsBetweenReadings) {
    const int n = std::min(kStepsBetweenReadings, n_tokens - i);
    const Clock::time_point start = Clock::now();
    for (int step = 0; step < n; ++step) session.next(sampler);
    seconds += seconds_since(start);
    if (probe != nullptr) readings.push_back(probe->gb_s());
  }
  double sum = 0.0;
  for (const double reading : readings) sum += reading;
  const NotComputed left = not_computed_since(engine, before);
  return {n_tokens / seconds,
          readings.empty() ? 0.0 : sum / static_cast<double>(readings.size()),
          {left.bytes / n_tokens, left.operations / n_tokens}};
}

namespace {

// Fills in what concerns decoding, and the peak of memory, in which the probe's buffer does not
// count. Returns the probe's rate of reading. Returns 0 where there is no probe: for a model that
// lives in the last cache, which the probe's reads would drive out of it, where memory is short,
// and where devices read.
double measure_decode(engine::Session& session, const MeasureOptions& options, Measurement* m) {
  const int context = std::max(options.decode_context, 1);
  std::vector<double> rates;
  NotComputed all_left;
  const auto add = [&](const DecodeRun& run) {
    rates.push_back(run.tokens_per_s);
    all_left.bytes += run.not_computed.bytes;
    all_left.operations += run.not_computed.operations;
  };
  add(decode_run(session, context, options.decode_tokens));
  m->peak_bytes = peak_resident_bytes();
  std::vector<double> fractions, readings;
  std::unique_ptr<ReadProbe> probe;
  if (!m->fits_last_cache && has_known_peaks(session.engine().plan())) {
    probe = std::make_unique<ReadProbe>(session.engine().plan().n_threads());
    if (!probe->has_room()) probe.reset();
  }
  const int n_more = std::max(options.repetitions - 1, probe != nullptr ? 1 : 0);
  for (int i = 0; i < n_more; ++i) {
    const DecodeRun run = decode_run(session, context, options.decode_tokens, probe.get());
    add(run);
    if (probe == nullptr) continue;
    readings.push_back(run.read_gb_s);
    const double bytes = m->dense_decode_bytes - run.not_computed.bytes;
    fractions.push_back(run.tokens_per_s * bytes / (run.read_gb_s * 1e9));
  }
  m->decode = summarise(options.decode_tokens, rates);
  m->decode_bytes -= all_left.bytes / static_cast<double>(rates.size());
  m->decode_operations -= all_left.operations / static_cast<double>(rates.size());
  if (probe == nullptr) return 0.0;
  m->fraction_of_bandwidth = median(fractions);
  return median(readings);
}

}  // namespace

void check_context(const engine::Session& session, size_t n_tokens) {
  if (n_tokens <= static_cast<size_t>(session.context())) return;
  throw Error(
      fmt::format("The measurement needs {} tokens of context, but {}. Use smaller lengths, or {}.",
                  n_tokens, engine::context_held(session.engine()),
                  engine::advised_context(session.engine(), n_tokens, 0)));
}

void check_context(const engine::Session& session, const MeasureOptions& options) {
  // The sum of two lengths may be more than an int holds.
  size_t needed = static_cast<size_t>(std::max(options.decode_context, 1)) +
                  static_cast<size_t>(options.decode_tokens) + 2;
  for (const int n : options.prefill_tokens) needed = std::max(needed, static_cast<size_t>(n));
  check_context(session, needed);
}

namespace {

// Divides the prompts' rates by the peak that this processor can reach.
void compare_with_peaks(const engine::Engine& engine, Measurement* m) {
  for (TokenRate& rate : m->prefill) {
    const double peak =
        prompt_peak(m->peaks, engine.plan(), engine.weights().main_type(), rate.n_tokens);
    if (peak <= 0) continue;
    const double seconds = rate.n_tokens / rate.median;
    rate.fraction_of_peak = rate.operations / seconds / (peak * 1e12);
  }
}

}  // namespace

Measurement measure(engine::Session& session, const MeasureOptions& options,
                    const ProgressFunction& progress) {
  check_context(session, options);
  engine::Engine& engine = session.engine();
  Measurement m;
  const uint64_t n_parts = options.prefill_tokens.size() + 2;
  uint64_t n_done = 0;
  const auto step = [&] {
    if (progress) progress(++n_done, n_parts);
  };
  m.is_cold = warm_up(session);
  m.work = count_work(engine.blueprint(), engine.weights());
  const std::vector<int>& lengths = options.prefill_tokens;
  const int shortest = lengths.empty() ? 0 : *std::min_element(lengths.begin(), lengths.end());
  for (const int n : lengths) {
    std::vector<double> rates;
    std::vector<double> seconds;
    const weights::NeuronSource::Computed before = computed_by_neuron(engine);
    for (int i = 0; i < options.repetitions; ++i) {
      seconds.push_back(prefill_seconds(session, n));
      rates.push_back(n / seconds.back());
    }
    if (n == shortest) m.first_token_s = median(seconds);
    m.prefill.push_back(summarise(n, rates));
    m.prefill.back().operations =
        m.work.prefill(n) - not_computed_since(engine, before).operations / options.repetitions;
    step();
  }
  const int context = std::max(options.decode_context, 1);
  m.decode_bytes = m.dense_decode_bytes =
      bytes_per_step(engine, context + options.decode_tokens / 2.0);
  m.decode_operations = m.work.body_per_token + m.work.head_per_output;
  m.fits_last_cache = m.decode_bytes < static_cast<double>(last_cache_bytes());
  const double read_gb_s = options.decode_tokens > 0 ? measure_decode(session, options, &m) : 0.0;
  step();
  session.truncate(0);
  if (m.peak_bytes == 0) m.peak_bytes = peak_resident_bytes();
  m.peaks = measure_peaks(engine.plan().n_threads(), read_gb_s);
  compare_with_peaks(engine, &m);
  if (read_gb_s <= 0 && m.peaks.read_gb_s > 0 && has_known_peaks(engine.plan())) {
    m.fraction_of_bandwidth = m.decode.median * m.decode_bytes / (m.peaks.read_gb_s * 1e9);
  }
  step();
  return m;
}

}  // namespace troika::measure
