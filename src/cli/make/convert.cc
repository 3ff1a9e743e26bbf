// troika convert: makes a model file of a model folder of Hugging Face.
#include "convert/convert_folder.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/bytes_text.h"
#include "base/progress.h"
#include "base/system.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "convert/convert_folder.h"

namespace troika::cli {
namespace {

struct ConvertFlags {
  convert::ConvertOptions options;
  bool json = false;
};

void convert_model(ConvertFlags& flags) {
  flags.options.n_threads = usable_cores();
  flags.options.note = [](const std::string& sentence) {
    note(fmt::format("note: {}\n", sentence));
  };
  convert::ConvertReport report;
  {
    Progress bar("converting");
    flags.options.progress = bar.function();
    report = convert::convert_folder(flags.options);
  }
  if (flags.json) {
    nlohmann::ordered_json json;
    json["architecture"] = report.architecture;
    json["name"] = report.name;
    json["tensors"] = report.n_tensors;
    json["tokens"] = report.n_tokens;
    json["input_bytes"] = report.input_bytes;
    json["output_bytes"] = report.output_bytes;
    print_json(json);
    return;
  }
  print(fmt::format("{}: {}, {} tensors, {} tokens, {} -> {}\n", flags.options.output,
                    report.architecture, report.n_tensors, report.n_tokens,
                    bytes_text(report.input_bytes), bytes_text(report.output_bytes)));
}

}  // namespace

void add_convert(Command& app) {
  Command* command = app.add_subcommand(
      "convert", "Make a model file out of a folder of Hugging Face", kMakeGroup);
  command->examples({"troika convert Qwen2.5-0.5B-Instruct qwen.gguf --type q8_0"});
  command->footer("Reads config.json, *.safetensors and the tokenizer of the folder.");
  auto flags = std::make_shared<ConvertFlags>();
  command->add_option("FOLDER", flags->options.folder, "The folder")->required();
  command->add_option("OUT", flags->options.output, "The GGUF file to write")->required();
  command->add_option("--type", flags->options.type, "Element type, as for quantize")
      ->capture_default_str();
  command->add_option("--pre", flags->options.pre,
                      "Pre-tokenizer of a byte-level BPE (default: found in tokenizer.json)");
  command->add_flag("--json", flags->json, "Print JSON");
  command->callback([flags] { convert_model(*flags); });
}

}  // namespace troika::cli
