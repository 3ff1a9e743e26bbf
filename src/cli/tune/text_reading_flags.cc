#include "cli/tune/text_reading_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "cli/flags/idle_flags.h"
#include "cli/output.h"
#include "tune/neurons/text_reading.h"

namespace troika::cli {
namespace {

constexpr const char* kOfReading[] = {"--prefill",
                                      "--attention",
                                      "--attention-share",
                                      "--attention-from",
                                      "--attention-above",
                                      "--attention-lanes",
                                      "--attention-heads",
                                      "--attention-buckets",
                                      "--chunk",
                                      "--order",
                                      "--in-flight",
                                      "--cut",
                                      "--length",
                                      "--context",
                                      "--ffn",
                                      "--neuron-predictor",
                                      "--neuron-hot",
                                      "--neuron-hot-lane"};

std::string why_reading_sets(std::string_view name) {
  if (name == "--context") {
    return fmt::format("the text is read in windows of {} tokens", tune::kReadTogether);
  }
  if (name == "--cut" || name == "--length") {
    return "the text is read on one lane, which sees its tokens in their order";
  }
  if (name == "--ffn" || name.starts_with("--neuron-")) {
    return "this command says itself which neurons are computed";
  }
  return "the text is read as steps are computed, each token by itself";
}

}  // namespace

void note_idle_in_reading(const EngineFlags& flags, const prepare::Options& options,
                          const engine::Engine& engine) {
  const auto says = [](const std::string& sentence, const char* name) {
    return sentence.starts_with(fmt::format("{} does nothing", name));
  };
  for (const char* name : kOfReading) {
    if (!flags.is_given(name)) continue;
    note(fmt::format("note: {} does nothing here: {}\n", name, why_reading_sets(name)));
  }
  for (const std::string& sentence : idle_flags(flags, options, engine)) {
    const bool is_said = std::any_of(std::begin(kOfReading), std::end(kOfReading),
                                     [&](const char* name) { return says(sentence, name); });
    if (!is_said) note("note: " + sentence + "\n");
  }
}

}  // namespace troika::cli
