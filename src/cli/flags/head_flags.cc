#include "cli/flags/head_flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "lanes/virtual/virtual_phone.h"

namespace troika::cli {
namespace {

using schedule::head_stage_from_name;

// Reads numbers of lanes of this machine, or names of processors of a phone.
void take_attention_lanes(const std::string& text, prepare::Options* options) {
  const bool is_of_numbers = text.find_first_not_of("0123456789,;") == std::string::npos;
  options->prompts.attention_lanes.clear();
  options->phone.heads.lanes.clear();
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find_first_of(";,", begin), text.size());
    const std::string name = text.substr(begin, end - begin);
    if (!is_of_numbers) {
      options->phone.heads.lanes.push_back(lanes::processor_from_name(name));
    } else if (name.empty() || name.size() > 4) {
      throw UsageError(fmt::format(
          "--attention-lanes '{}' is not understood; it names three lanes, as in 1,0,0.", text));
    } else {
      options->prompts.attention_lanes.push_back(std::stoi(name));
    }
    begin = end + 1;
  }
}

}  // namespace

void add_heads(Command& command, prepare::Options& options) {
  command.add_text(
      "--attention-lanes", [&](const auto& text) { take_attention_lanes(text, &options); },
      "With --attention query: the lanes of the estimate, of the selection and of exact attention, "
      "as in 1,0,0: heads go through them as in a pipeline (default: one lane does it all)" +
          command.on_phones("; on a phone its processors (default: npu,cpu,cpu)"));
  command
      .add_text(
          "--attention-heads",
          [&](const auto& text) {
            options.phone.heads.stage = head_stage_from_name(text);
            options.prompts.attention_stage = options.phone.heads.stage;
          },
          "How heads go through the --attention-lanes: in-turn (one after the other), overlap "
          "(lanes work on several), fused (heads of one graph are launched together) or ordered "
          "(in the order "
          "of shadowAttn's Algorithm 1)")
      ->shows_default("ordered");
  command.add_option("--attention-buckets", options.prompts.attention_buckets,
                     "With --attention query: the estimate takes the nearest of N pairs of "
                     "scales, 9, 5 or 1, that are fixed beforehand, around those which 'troika "
                     "tune' found (default: scales as they come; with --strict-npu " +
                         command.on_phones("and on a phone ") + "9)");
}

}  // namespace troika::cli
