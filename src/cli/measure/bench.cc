// troika bench: measures how fast a model runs here.
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/bytes_text.h"
#include "base/error.h"
#include "base/progress.h"
#include "cli/commands.h"
#include "cli/flags/engine_flags.h"
#include "cli/flags/trace_flags.h"
#include "cli/load.h"
#include "cli/measure/bench_drafts.h"
#include "cli/measure/bench_virtual.h"
#include "cli/measure/compare.h"
#include "cli/output.h"
#include "cli/papers/measured_npu.h"
#include "cli/tune/layouts.h"
#include "cli/use/by_neuron.h"
#include "cli/use/memory.h"
#include "cli/use/streaming.h"
#include "engine/engine.h"
#include "measure/measure.h"
#include "model/limits.h"

namespace troika::cli {
namespace {

struct BenchFlags {
  EngineFlags engine;
  TraceFlags trace;
  DraftBenchFlags drafts;
  std::vector<int> prefill = {128, 512, 1024};
  int n_tokens = 64;
  int depth = 0;
  int repetitions = 3;
  std::string peer;
  int n_pairs = 10;
  bool json = false;
};

// Returns what several lanes did while prompts were measured; null with one lane. The shares in
// "busy" are those of "lanes", in this order.
nlohmann::ordered_json scheduler_json(engine::Engine& engine) {
  const schedule::SchedulerStatistics& s = engine.passes().statistics;
  if (s.n_decisions == 0) return nullptr;
  nlohmann::ordered_json json = {
      {"order", plan::order_name(engine.plan().order)},
      {"decisions", s.n_decisions},
      {"decision_us", s.decision_us / static_cast<double>(s.n_decisions)},
      {"longest_us", s.longest_decision_us}};
  json["lanes"] = nlohmann::ordered_json::array();
  for (const lanes::Lane* lane : engine.machine().lanes()) {
    json["lanes"].push_back(lane->info().name);
  }
  json["busy"] = nlohmann::ordered_json::array();
  for (const double us : s.busy_us) json["busy"].push_back(us / s.span_us);
  return json;
}

void print_scheduler(engine::Engine& engine) {
  const schedule::SchedulerStatistics& s = engine.passes().statistics;
  if (s.n_decisions == 0) return;
  std::string busy;
  for (size_t lane = 0; lane < s.busy_us.size(); ++lane) {
    busy += fmt::format(" {} {:.0f}%", engine.machine().lanes()[lane]->info().name,
                        100 * s.busy_us[lane] / s.span_us);
  }
  print(fmt::format("prompts {}: busy{}; {} decisions of {:.2f} us\n",
                    plan::order_name(engine.plan().order), busy, s.n_decisions,
                    s.decision_us / static_cast<double>(s.n_decisions)));
}

nlohmann::ordered_json to_json(const measure::Measurement& m, const engine::Engine& engine) {
  nlohmann::ordered_json json;
  json["model"] = engine.file().path();
  json["machine"] = "here";
  json["precision"] = fmt::format(
      "{} weights, {} activations, {} cache", tensor::type_name(engine.weights().main_type()),
      plan::activations_name(engine.plan().activations), tensor::type_name(engine.plan().kv_type));
  json["prefill_precision"] = plan::prefill_name(engine.plan().prefill);
  json["prefill_reason"] = engine.plan().prefill_reason;
  json["packed_bytes"] = engine.weights().packed_bytes();
  json["pack_s"] = engine.loaded().pack_seconds;
  json["threads"] = engine.plan().n_threads();
  json["workers"] = engine.plan().workers_text();
  json["prefill"] = nlohmann::ordered_json::array();
  for (const measure::TokenRate& rate : m.prefill) {
    json["prefill"].push_back({{"tokens", rate.n_tokens},
                               {"tokens_per_s", rate.median},
                               {"lowest", rate.lowest},
                               {"highest", rate.highest},
                               {"operations", rate.operations},
                               {"fraction_of_peak", known_or_null(rate.fraction_of_peak)}});
  }
  json["decode"] = {{"tokens", m.decode.n_tokens},
                    {"tokens_per_s", m.decode.median},
                    {"lowest", m.decode.lowest},
                    {"highest", m.decode.highest},
                    {"bytes_per_step", m.decode_bytes},
                    {"dense_bytes_per_step", m.dense_decode_bytes},
                    {"operations_per_step", m.decode_operations},
                    {"fraction_of_bandwidth", known_or_null(m.fraction_of_bandwidth)},
                    {"fits_last_cache", m.fits_last_cache}};
  json["peaks"] = {{"int8_tops", known_or_null(m.peaks.int8_tops)},
                   {"bf16_tflops", known_or_null(m.peaks.bf16_tflops)},
                   {"f32_tflops", known_or_null(m.peaks.f32_tflops)},
                   {"read_gb_s", known_or_null(m.peaks.read_gb_s)},
                   {"int8_with", m.peaks.int8_name},
                   {"bf16_with", m.peaks.bf16_name},
                   {"f32_with", m.peaks.f32_name}};
  json["load_s"] = engine.start().seconds;
  json["weights"] = engine.loaded().pages.text;
  json["first_token_s"] = m.first_token_s;
  json["was_cold"] = m.is_cold;
  json["peak_bytes"] = m.peak_bytes;
  return json;
}

void print_rate(const std::string& what, const measure::TokenRate& rate,
                const std::string& remark) {
  print(fmt::format("{:<16} {:>10.1f} {:>10.1f} {:>10.1f}  {}\n", what, rate.median, rate.lowest,
                    rate.highest, remark));
}

// Returns a number of operations in a unit that leaves digits to compare.
std::string operations_text(double n) {
  return n < 1e8 ? fmt::format("{:.2f} MFLOP", 1e-6 * n) : fmt::format("{:.1f} GFLOP", 1e-9 * n);
}

void print_table(const measure::Measurement& m, const engine::Engine& engine) {
  print(fmt::format("{}: {} weights, {} activations, {} cache, {}\n", engine.file().path(),
                    tensor::type_name(engine.weights().main_type()),
                    plan::activations_name(engine.plan().activations),
                    tensor::type_name(engine.plan().kv_type), engine.plan().workers_text()));
  print(fmt::format("prompts: {}\n\n", prefill_text(engine)));
  print("tokens/s             median     lowest    highest\n");
  for (const measure::TokenRate& rate : m.prefill) {
    print_rate(fmt::format("prefill {}", rate.n_tokens), rate,
               rate.fraction_of_peak > 0
                   ? fmt::format("{:.1f}% of the peak, {} a token", 100 * rate.fraction_of_peak,
                                 operations_text(rate.operations / rate.n_tokens))
                   : "");
  }
  if (m.decode.n_tokens > 0) {
    const std::string share = m.fraction_of_bandwidth > 0
                                  ? fmt::format("{:.0f}% of {:.1f} GB/s, ",
                                                100 * m.fraction_of_bandwidth, m.peaks.read_gb_s)
                                  : "";
    const char* const cached = m.fits_last_cache               ? " (the model fits the last cache)"
                               : m.fraction_of_bandwidth > 1.0 ? " (caches kept some of them)"
                                                               : "";
    const std::string dense =
        m.decode_bytes < m.dense_decode_bytes
            ? fmt::format(" (of {:.0f} MB of all neurons)", 1e-6 * m.dense_decode_bytes)
            : "";
    print_rate(fmt::format("decode {}", m.decode.n_tokens), m.decode,
               fmt::format("{}{:.0f} MB a token{}{}", share, 1e-6 * m.decode_bytes, dense, cached));
  }
  print(fmt::format("\nweights: {}\n", engine.loaded().pages.text));
  print(fmt::format("load {:.2f} s, prompt to first token {:.3f} s, memory {} at its peak\n",
                    engine.start().seconds, m.first_token_s, bytes_text(m.peak_bytes)));
  const auto peak = [](double value, const std::string& name) {
    return value > 0 ? fmt::format("{:.2f} ({})", value, name) : std::string("none");
  };
  const std::string read = m.peaks.read_gb_s > 0 ? fmt::format("{:.1f} GB/s", m.peaks.read_gb_s)
                                                 : "unknown, for want of memory";
  print(fmt::format("peaks: int8 {} TOPS, bf16 {} TFLOPS, f32 {} TFLOPS, read {}\n",
                    peak(m.peaks.int8_tops, m.peaks.int8_name),
                    peak(m.peaks.bf16_tflops, m.peaks.bf16_name),
                    peak(m.peaks.f32_tflops, m.peaks.f32_name), read));
  if (m.is_cold) print("The file was not in memory at the start; the rates are of later passes.\n");
}

nlohmann::ordered_json to_json(const Comparison& comparison) {
  nlohmann::ordered_json json = {
      {"command", comparison.command}, {"pairs", comparison.n_pairs}, {"peer", comparison.peer}};
  json["rows"] = nlohmann::ordered_json::array();
  for (const ComparedRow& row : comparison.rows) {
    json["rows"].push_back({{"what", row.what},
                            {"tokens_per_s", row.ours},
                            {"peer_tokens_per_s", row.peers},
                            {"ratio", row.ratio},
                            {"lowest", row.lowest},
                            {"highest", row.highest}});
  }
  return json;
}

void print_table(const Comparison& comparison) {
  print(fmt::format("\nbeside '{}', {} pairs in alternation, medians\n", comparison.command,
                    comparison.n_pairs));
  print("tokens/s               here       peer      ratio     lowest    highest\n");
  for (const ComparedRow& row : comparison.rows) {
    print(fmt::format("{:<18} {:>8.1f} {:>10.1f} {:>10.2f} {:>10.2f} {:>10.2f}\n", row.what,
                      row.ours, row.peers, row.ratio, row.lowest, row.highest));
  }
  print("peer:");
  for (const auto& [key, value] : comparison.peer.items()) {
    print(fmt::format(" {} {}", key, value.is_string() ? value.get<std::string>() : value.dump()));
  }
  print("\n");
}

// Says which options change nothing about what is measured.
void note_idle(const Command& command, const BenchFlags& flags) {
  const auto say = [&](const char* name, bool is_idle, const char* why) {
    if (!is_idle || !command.is_given(name)) return;
    note(fmt::format("note: {} does nothing here: {}\n", name, why));
  };
  const bool is_replay = !flags.drafts.prompt_file.empty();
  for (const char* name : {"--prompt", "--tokens", "--compare"}) {
    say(name, flags.drafts.is_wanted(), "--widths and --replay are measured in place of rates");
  }
  const bool is_replay_alone = is_replay && flags.drafts.widths.empty();
  say("--depth", is_replay_alone, "a replay begins behind its own prompt");
  say("--repetitions", is_replay_alone, "--pairs counts the runs of a replay");
  say("--pairs", flags.peer.empty() && !is_replay, "it counts runs of --compare and of --replay");
  for (const char* name : {"--draft", "--calibrate-drafts", "--draft-width"}) {
    say(name, !is_replay, "drafts are measured by --replay");
  }
  const bool is_on_phone = !prepare::is_here(flags.engine.options);
  say("--repetitions", is_on_phone && !flags.drafts.is_wanted(),
      "a virtual phone takes the same time in every run");
  say("--pre", !is_replay, "no text is read but that of a replay");
  say("--history", true, "a replay keeps no answer, and begins without earlier ones");
  std::error_code ignored;
  say("--type", std::filesystem::exists(flags.engine.options.model.file, ignored),
      "MODEL is a file, whose weights have types of their own");
}

// Checks where a trace goes, and says what it costs.
void check_trace(const BenchFlags& flags) {
  flags.trace.check(
      files_read(flags.engine.options, {flags.drafts.prompt_file, flags.drafts.answer_file}));
  if (flags.trace.is_wanted() && prepare::is_here(flags.engine.options)) {
    note(
        "note: recording every task takes time of its own; for rates leave --trace and --timeline "
        "out\n");
  }
}

void bench(BenchFlags& flags) {
  if (!flags.peer.empty() && !prepare::is_here(flags.engine.options)) {
    throw UsageError(
        "--compare runs a peer on this machine, beside which a virtual phone is nothing to "
        "compare. "
        "Leave --compare or --machine out.");
  }
  check_trace(flags);
  if (flags.drafts.is_wanted()) {
    bench_drafts(flags.engine, flags.drafts,
                 {flags.depth, flags.repetitions, flags.n_pairs, flags.json}, &flags.trace);
    return;
  }
  measure::MeasureOptions options;
  options.prefill_tokens = flags.prefill;
  options.decode_tokens = flags.n_tokens;
  options.decode_context = flags.depth;
  options.repetitions = flags.repetitions;
  if (!prepare::is_here(flags.engine.options)) {
    bench_on_phone(flags.engine, options, flags.json, &flags.trace);
    return;
  }
  if (!flags.peer.empty())
    check_peer_command(flags.peer);  // the peer is checked before the model is read
  const auto engine = load(flags.engine);
  engine::Session session(*engine);
  session.watch(flags.trace.watch(*engine));
  Comparison comparison;
  if (!flags.peer.empty()) {  // comes first, so that a peer that does not run is told of at once
    Progress bar("comparing");
    comparison =
        compare(session, {flags.peer, flags.prefill, flags.n_tokens, flags.depth, flags.n_pairs},
                bar.function());
  }
  measure::Measurement m;
  {
    Progress bar("measuring");
    m = measure::measure(session, options, bar.function());
  }
  if (flags.json) {
    nlohmann::ordered_json json = to_json(m, *engine);
    json["scheduler"] = scheduler_json(*engine);
    json["outliers"] = outliers_json(*engine);
    json["by_neuron"] = by_neuron_json(*engine);
    json["stream"] = streaming_json(*engine);
    json["memory"] = memory_json(*engine);
    json["layouts"] = layouts_json(*engine);
    if (!flags.peer.empty()) json["compare"] = to_json(comparison);
    print_json(json);
  } else {
    print_table(m, *engine);
    print_scheduler(*engine);
    print(outliers_text(*engine));
    print(by_neuron_text(*engine));
    print(streaming_text(*engine));
    print(layouts_text(*engine));
    if (!flags.peer.empty()) print_table(comparison);
  }
  flags.trace.end(*engine);
}

}  // namespace

void add_bench(Command& app) {
  Command* command = app.add_subcommand("bench", "Measure prefill and decode rates", kMeasureGroup);
  command->examples({"troika bench model.gguf -p 128,512 -n 64 --threads 2",
                     "troika bench mixtral-8x7b --machine phones/8gen3.json --stack heterollm"});
  auto flags = std::make_shared<BenchFlags>();
  flags->engine.add_to(*command, PhoneHelp::kListed);
  flags->engine.add_kept_plan(*command);
  command->add_option("-p,--prompt", flags->prefill, "Prompt lengths, separated by commas")
      ->delimiter(',')
      ->check(within(1, model::kMostContext))
      ->capture_default_str();
  command->add_option("-n,--tokens", flags->n_tokens, "Tokens to decode")
      ->check(within(0, model::kMostContext))
      ->capture_default_str();
  command->add_option("--depth", flags->depth, "Tokens in the context before decoding begins")
      ->check(within(0, model::kMostContext));
  command->add_option("-r,--repetitions", flags->repetitions, "Runs of which the median is taken")
      ->check(at_least(1))
      ->capture_default_str();
  command
      ->add_option("--type", flags->engine.options.model.type,
                   "Element type of the weights, where MODEL is a name of 'troika synth --list' "
                   "(with --machine)")
      ->capture_default_str();
  flags->drafts.add_to(*command);
  flags->trace.add_to(*command);
  command->add_option(
      "--compare", flags->peer,
      "A peer's benchmark to run in alternation: 'llama-bench', with options of its "
      "own such as '-fa 1'; model, threads and lengths are passed on to it");
  command->add_option("--pairs", flags->n_pairs, "With --compare and --replay: runs of each side")
      ->check(at_least(1))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, command] {
    note_idle(*command, *flags);
    bench(*flags);
  });
}

}  // namespace troika::cli
