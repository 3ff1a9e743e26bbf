#include "cli/measure/bench_drafts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/progress.h"
#include "cli/load.h"
#include "cli/output.h"
#include "measure/measure_drafts.h"

namespace troika::cli {
namespace {

using nlohmann::ordered_json;

// Returns a number with so many digits behind the point; a dash for zero, which is not known.
std::string or_dash(double value) { return value > 0.0 ? fmt::format("{:.2f}", value) : "-"; }

// Says at which rates steps would read and multiply.
std::string rates_text(const measure::WidthTimes& found) {
  const bool fits_last_cache =
      std::any_of(found.times.begin(), found.times.end(),
                  [](const measure::WidthTime& time) { return time.fits_last_cache; });
  const std::string rate = found.peaks.read_gb_s > 0
                               ? fmt::format("{:.1f} GB/s", found.peaks.read_gb_s)
                               : "a rate that is unknown, for want of memory";
  const measure::NamedPeak& peak = found.multiplying;
  return fmt::format("reading: weights and cache at {}{}; multiplying: at {}\n", rate,
                     fits_last_cache ? " (the model fits the last cache)" : "",
                     peak.per_s > 0.0 ? fmt::format("{:.2f} TOPS of {} ({})", peak.per_s,
                                                    peak.precision, peak.instruction)
                                      : "a peak that is unknown");
}

// Puts the time of each width into `json`, and beside them the rates by which they are judged.
void bench_widths(engine::Session& session, const DraftBenchFlags& flags, int depth,
                  int repetitions, bool is_json, ordered_json* json) {
  measure::WidthTimes found;
  {
    Progress bar("measuring widths");
    found = measure::measure_widths(session, flags.widths, depth, repetitions, bar.function());
  }
  ordered_json& rows = (*json)["widths"] = ordered_json::array();
  if (!is_json) {
    print(
        "tokens of a step       ms   to one token   tokens/s   reading   multiplying   of the "
        "larger\n");
  }
  for (const measure::WidthTime& time : found.times) {
    const double larger_ms = std::max(time.read_ms, time.multiply_ms);
    rows.push_back({{"width", time.width},
                    {"ms", time.ms},
                    {"ratio", known_or_null(time.ratio)},
                    {"read_ms", known_or_null(time.read_ms)},
                    {"multiply_ms", known_or_null(time.multiply_ms)},
                    {"fits_last_cache", time.fits_last_cache}});
    if (!is_json) {
      print(fmt::format("{:>16} {:>8.2f} {:>14} {:>10.1f} {:>9} {:>13} {:>15}\n", time.width,
                        time.ms, or_dash(time.ratio), 1e3 * time.width / time.ms,
                        or_dash(time.read_ms), or_dash(time.multiply_ms),
                        larger_ms > 0.0 ? fmt::format("{:.2f}x", time.ms / larger_ms) : "-"));
    }
  }
  (*json)["read_gb_s"] = known_or_null(found.peaks.read_gb_s);
  (*json)["multiply_tops"] = known_or_null(found.multiplying.per_s);
  (*json)["multiply_precision"] = found.multiplying.precision;
  (*json)["multiply_with"] = found.multiplying.instruction;
  if (!is_json) print(rates_text(found));
}

ordered_json bench_replay(engine::Session& session, const EngineFlags& engine_flags,
                          const DraftBenchFlags& flags, int n_pairs, bool is_json) {
  if (flags.prompt_file.empty() || flags.answer_file.empty()) {
    throw UsageError("A replay needs both --replay PROMPT and --force-text ANSWER.");
  }
  engine::Engine& engine = session.engine();
  const auto prompt = engine.tokenizer().encode(read_text(flags.prompt_file));
  const auto answer = engine.tokenizer().encode(read_text(flags.answer_file),
                                                {.add_special = false, .parse_special = false});
  const auto drafter = flags.draft.make(engine, engine_flags.checked());
  if (drafter == nullptr) throw UsageError("--draft none is one side of a replay already.");
  measure::Replay r;
  {
    Progress bar("replaying");
    r = measure::replay(session, prompt, answer, *drafter, n_pairs, bar.function());
  }
  if (!is_json) {
    print(fmt::format(
        "replay: {} tokens behind {}, {} pairs\n"
        "plain {:.2f} ms a token, drafted {:.2f} ms: {:.2f} times as fast ({:.2f} to {:.2f})\n",
        r.n_tokens, r.n_prompt, n_pairs, r.plain_ms, r.drafted_ms, r.ratio, r.lowest, r.highest));
    print(draft_text(flags.draft, *drafter, true));
  }
  return {{"replay", true},
          {"prompt_tokens", r.n_prompt},
          {"tokens", r.n_tokens},
          {"pairs", n_pairs},
          {"plain_ms_per_token", r.plain_ms},
          {"drafted_ms_per_token", r.drafted_ms},
          {"ratio", r.ratio},
          {"lowest", r.lowest},
          {"highest", r.highest},
          {"draft", draft_json(flags.draft, drafter.get())}};
}

}  // namespace

void DraftBenchFlags::add_to(Command& command) {
  command
      .add_option("--widths", widths,
                  "In place of rates: the time of steps of N tokens, as drafts and several answers "
                  "take them, e.g. 1,2,4,8,16,32,64")
      ->delimiter(',');
  command
      .add_option(
          "--replay", prompt_file,
          "In place of rates: replay an answer to the prompt in this file, with and without drafts")
      ->names_file();
  command
      .add_option("--force-text", answer_file,
                  "With --replay: the answer is in this file, whatever the model says")
      ->names_file();
  draft.add_to(command);
}

void bench_drafts(const EngineFlags& engine_flags, const DraftBenchFlags& flags,
                  const DraftBenchRuns& runs, TraceFlags* trace) {
  if (!prepare::is_here(engine_flags.options)) {
    throw UsageError("Drafts are measured on this machine only; leave --machine out.");
  }
  const auto engine = load(engine_flags);
  engine::Session session(*engine);
  session.watch(trace->watch(*engine));
  const bool is_json = runs.is_json;
  ordered_json json = {{"model", engine->file().path()}};
  if (!flags.widths.empty()) {
    bench_widths(session, flags, runs.depth, runs.repetitions, is_json, &json);
  }
  if (!flags.prompt_file.empty() || !flags.answer_file.empty()) {
    json["replay"] = bench_replay(session, engine_flags, flags, runs.n_pairs, is_json);
  }
  if (is_json) print_json(json);
  trace->end(*engine);
}

}  // namespace troika::cli
