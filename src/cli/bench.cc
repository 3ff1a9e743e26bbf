// troika bench: how fast a model runs here.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/progress.h"
#include "cli/common.h"
#include "engine/measure.h"

namespace troika::cli {
namespace {

struct BenchFlags {
  EngineFlags engine;
  std::vector<int> prefill = {128, 512, 1024};
  int n_tokens = 64;
  int depth = 0;
  int repetitions = 3;
  bool json = false;
};

nlohmann::ordered_json to_json(const engine::Measurement& m, const engine::Engine& engine) {
  nlohmann::ordered_json json;
  json["model"] = engine.file().path();
  json["machine"] = "here";
  json["precision"] = fmt::format(
      "{} weights, {} activations, {} cache", tensor::type_name(engine.weights().main_type()),
      plan::activations_name(engine.plan().activations), tensor::type_name(engine.plan().kv_type));
  json["prefill_precision"] = plan::prefill_name(engine.plan().prefill);
  json["prefill_reason"] = engine.plan().prefill_reason;
  json["packed_bytes"] = engine.weights().packed_bytes();
  json["pack_s"] = engine.pack_seconds();
  json["threads"] = engine.plan().n_threads();
  json["prefill"] = nlohmann::ordered_json::array();
  for (const engine::Rate& rate : m.prefill) {
    // The peak of the matrix units is not probed, so no fraction of it can be told.
    json["prefill"].push_back({{"tokens", rate.n_tokens},
                               {"tokens_per_s", rate.median},
                               {"lowest", rate.lowest},
                               {"highest", rate.highest},
                               {"fraction_of_peak", nullptr}});
  }
  json["decode"] = {
      {"tokens", m.decode.n_tokens},         {"tokens_per_s", m.decode.median},
      {"lowest", m.decode.lowest},           {"highest", m.decode.highest},
      {"bytes_per_step", m.decode_bytes},    {"fraction_of_bandwidth", m.fraction_of_bandwidth},
      {"fits_last_cache", m.fits_last_cache}};
  json["peaks"] = {{"int8_tops", nullptr}, {"bf16_tflops", nullptr}, {"read_gb_s", m.read_gb_s}};
  json["load_s"] = engine.load_seconds();
  json["first_token_s"] = m.first_token_s;
  json["was_cold"] = m.is_cold;
  json["peak_bytes"] = m.peak_bytes;
  return json;
}

void print_rate(const std::string& what, const engine::Rate& rate, const std::string& remark) {
  print(fmt::format("{:<16} {:>10.1f} {:>10.1f} {:>10.1f}  {}\n", what, rate.median, rate.lowest,
                    rate.highest, remark));
}

void print_table(const engine::Measurement& m, const engine::Engine& engine) {
  print(fmt::format("{}: {} weights, {} activations, {} cache, {} threads\n", engine.file().path(),
                    tensor::type_name(engine.weights().main_type()),
                    plan::activations_name(engine.plan().activations),
                    tensor::type_name(engine.plan().kv_type), engine.plan().n_threads()));
  print(fmt::format("prompts: {}\n\n", prefill_text(engine)));
  print("tokens/s             median     lowest    highest\n");
  for (const engine::Rate& rate : m.prefill) {
    print_rate(fmt::format("prefill {}", rate.n_tokens), rate, "");
  }
  if (m.decode.n_tokens > 0) {
    print_rate(fmt::format("decode {}", m.decode.n_tokens), m.decode,
               fmt::format("{:.0f}% of {:.1f} GB/s{}", 100 * m.fraction_of_bandwidth, m.read_gb_s,
                           m.fits_last_cache ? " (the model fits the last cache)" : ""));
  }
  print(fmt::format("\nload {:.2f} s, prompt to first token {:.3f} s, memory {} at its peak\n",
                    engine.load_seconds(), m.first_token_s, bytes_text(m.peak_bytes)));
  if (m.is_cold) print("The file was not in memory at the start; the rates are of later passes.\n");
}

void bench(const BenchFlags& flags) {
  const auto engine = load(flags.engine);
  engine::Session session(*engine);
  engine::MeasureOptions options;
  options.prefill_tokens = flags.prefill;
  options.decode_tokens = flags.n_tokens;
  options.decode_context = flags.depth;
  options.repetitions = flags.repetitions;
  engine::Measurement m;
  {
    Progress bar("measuring");
    m = measure(session, options, bar.function());
  }
  if (flags.json) {
    print_json(to_json(m, *engine));
  } else {
    print_table(m, *engine);
  }
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "Measure prefill and decode rates");
  command->footer("Example: troika bench model.gguf -p 128,512 -n 64 --threads 2");
  auto flags = std::make_shared<BenchFlags>();
  flags->engine.add_to(*command);
  command->add_option("-p,--prompt", flags->prefill, "Prompt lengths, separated by commas")
      ->delimiter(',')
      ->check(at_least(1))
      ->capture_default_str();
  command->add_option("-n,--tokens", flags->n_tokens, "Tokens to decode")
      ->check(at_least(0))
      ->capture_default_str();
  command->add_option("--depth", flags->depth, "Tokens in the context before decoding begins")
      ->check(at_least(0));
  command->add_option("-r,--repetitions", flags->repetitions, "Runs of which the median is taken")
      ->check(at_least(1))
      ->capture_default_str();
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags] { bench(*flags); });
}

}  // namespace troika::cli
