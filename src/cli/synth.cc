// troika synth: model files with real shapes and random weights.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/progress.h"
#include "base/system.h"
#include "cli/common.h"
#include "model/known.h"
#include "weights/synth.h"

namespace troika::cli {
namespace {

struct SynthFlags {
  weights::SynthOptions options;
  bool list = false;
  bool json = false;
};

void list(bool as_json) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  std::string table =
      fmt::format("{:<18} {:<12} {:>11} {:>6} {:>6} {:>6} {:>7} {:>10}\n", "name", "architecture",
                  "parameters", "blocks", "width", "heads", "FFN", "vocabulary");
  for (const model::KnownModel& m : model::known_models()) {
    table +=
        fmt::format("{:<18} {:<12} {:>9.1f} M {:>6} {:>6} {:>6} {:>7} {:>10}\n", m.name,
                    m.architecture, static_cast<double>(model::n_parameters(m)) * 1e-6, m.n_layers,
                    m.width, fmt::format("{}/{}", m.n_heads, m.n_kv_heads), m.ffn_width, m.n_vocab);
    json.push_back({{"name", m.name},
                    {"architecture", m.architecture},
                    {"parameters", model::n_parameters(m)},
                    {"blocks", m.n_layers},
                    {"width", m.width},
                    {"heads", m.n_heads},
                    {"kv_heads", m.n_kv_heads},
                    {"ffn", m.ffn_width},
                    {"vocabulary", m.n_vocab},
                    {"context", m.n_context}});
  }
  as_json ? print_json(json) : print(table);
}

void synth(SynthFlags& flags) {
  if (flags.list) return list(flags.json);
  if (flags.options.like.empty() || flags.options.output.empty()) {
    throw UsageError("Give --like NAME and the file to write. --list shows the names.");
  }
  flags.options.n_threads = usable_cores();
  weights::SynthReport report;
  {
    Progress bar("writing " + flags.options.output);
    flags.options.progress = bar.function();
    report = weights::synth(flags.options);
  }
  if (flags.json) {
    print_json({{"file", flags.options.output},
                {"parameters", report.n_parameters},
                {"tensors", report.n_tensors},
                {"bytes", report.bytes}});
    return;
  }
  print(
      fmt::format("{}: {:.1f} M parameters of random weights in {} tensors, {}. Its text is "
                  "noise.\n",
                  flags.options.output, static_cast<double>(report.n_parameters) * 1e-6,
                  report.n_tensors, bytes_text(report.bytes)));
}

}  // namespace

void add_synth(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "synth", "Write a model with the shapes of a known one and random weights");
  command->footer("Example: troika synth --like qwen2.5-1.5b --type q4_0 random.gguf");
  auto flags = std::make_shared<SynthFlags>();
  command->add_option("OUT", flags->options.output, "The GGUF file to write");
  command->add_option("--like", flags->options.like, "A name from --list");
  command->add_option("--type", flags->options.type, "Element type, as for quantize")
      ->capture_default_str();
  command->add_option("--seed", flags->options.seed, "The same seed gives the same file")
      ->capture_default_str();
  command->add_flag("--list", flags->list, "Show the known models");
  command->add_flag("--json", flags->json, "Print JSON");
  command->callback([flags] { synth(*flags); });
}

}  // namespace troika::cli
