// troika quantize: writes a model file with other element types.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/bytes_text.h"
#include "base/progress.h"
#include "base/system.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/use/models.h"
#include "forge/file_type.h"
#include "forge/quantize_file.h"

namespace troika::cli {
namespace {

struct QuantizeFlags {
  forge::QuantizeOptions options;
  bool json = false;
};

nlohmann::ordered_json to_json(const forge::QuantizeReport& report) {
  nlohmann::ordered_json json;
  json["input_bytes"] = report.input_bytes;
  json["output_bytes"] = report.output_bytes;
  json["types"] = nlohmann::ordered_json::array();
  for (const forge::TypeReport& t : report.types) {
    json["types"].push_back({{"type", tensor::type_name(t.type)},
                             {"tensors", t.n_tensors},
                             {"elements", t.n_elements},
                             {"bytes", t.bytes},
                             {"rmse", t.rmse},
                             {"max_error", t.max_error},
                             {"rms", t.rms}});
  }
  json["fallbacks"] = report.fallbacks;
  return json;
}

void print_table(const forge::QuantizeReport& report) {
  print(fmt::format("{:<8} {:>8} {:>12} {:>12} {:>12} {:>10} {:>12}\n", "type", "tensors",
                    "elements", "bytes", "rms error", "of rms", "max error"));
  for (const forge::TypeReport& t : report.types) {
    print(fmt::format("{:<8} {:>8} {:>12} {:>12} {:>12.3e} {:>9.3f}% {:>12.3e}\n",
                      tensor::type_name(t.type), t.n_tensors, t.n_elements, bytes_text(t.bytes),
                      t.rmse, t.rms > 0 ? 100 * t.rmse / t.rms : 0.0, t.max_error));
  }
  print(fmt::format(
      "\n{} -> {} ({:.1f}%)\n", bytes_text(report.input_bytes), bytes_text(report.output_bytes),
      100.0 * static_cast<double>(report.output_bytes) / static_cast<double>(report.input_bytes)));
  if (!report.fallbacks.empty()) {
    print(
        fmt::format("{} matrices got a larger type, because their rows are no multiple of its "
                    "block: {}{}\n",
                    report.fallbacks.size(), terminal_text(report.fallbacks.front()),
                    report.fallbacks.size() > 1 ? ", ..." : ""));
  }
}

void quantize(QuantizeFlags& flags) {
  flags.options.n_threads = usable_cores();
  forge::QuantizeReport report;
  {
    Progress bar("quantising");
    flags.options.progress = bar.function();
    report = forge::quantize_file(flags.options);
  }
  flags.json ? print_json(to_json(report)) : print_table(report);
}

}  // namespace

void add_quantize(Command& app) {
  Command* command =
      app.add_subcommand("quantize", "Convert a model file to other element types", kMakeGroup);
  command->examples({"troika quantize model-f16.gguf model-q4.gguf --type q4_k_m"});
  auto flags = std::make_shared<QuantizeFlags>();
  add_model(*command, "IN", flags->options.input)->required();
  command->add_option("OUT", flags->options.output, "The GGUF file to write")->required();
  command->add_option("--type", flags->options.type, forge::file_type_names())
      ->capture_default_str();
  command->add_flag("--json", flags->json, "Print JSON");
  command->callback([flags] { quantize(*flags); });
}

}  // namespace troika::cli
