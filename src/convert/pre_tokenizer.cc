#include "convert/pre_tokenizer.h"

#include <fmt/format.h>

#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/os_error.h"

namespace troika::convert {
namespace {

// A known pre-tokenizer. Its steps stand in one line: "split:PATTERN", "digits:1", "bytes" (that
// splits as GPT-2 did), "letters" (bytes written as letters, without a split of its own) and
// "ignore_merges" (what is split off and is a token becomes it, whatever the merges are). The last
// one belongs to the model in tokenizer.json, but to the pre-tokenizer's name in a model file.
struct Known {
  std::string_view steps;
  std::string_view name;
};

#define TROIKA_TAIL R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define TROIKA_WORDS R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)"
constexpr Known kKnown[] = {
    {"bytes", "gpt-2"},
    {"digits:1 bytes", "smollm"},
    {"split:" TROIKA_WORDS R"(\p{N}{1,3})" TROIKA_TAIL " letters ignore_merges", "llama-bpe"},
    {"split:" TROIKA_WORDS R"(\p{N}{1,3})" TROIKA_TAIL " letters", "dbrx"},
    {"split:" TROIKA_WORDS R"(\p{N})" TROIKA_TAIL " letters", "qwen2"},
};

// Limits the steps that are read, by far above those of what is known.
constexpr size_t kMostSteps = 32;

void add_steps(const Json& step, std::vector<std::string>* steps) {
  if (steps->size() >= kMostSteps) return;
  const std::string type = text_member(step, "type").value_or("");
  const Json* inner = member(step, "pretokenizers");
  if (type == "Sequence" && inner != nullptr && inner->is_array()) {
    for (const Json& next : *inner) {
      // Deep nesting of sequences cannot occur here: the reader bounds the depth.
      add_steps(next, steps);
    }
  } else if (type == "ByteLevel") {
    const bool prefixes = bool_member(step, "add_prefix_space").value_or(false);
    const bool splits = bool_member(step, "use_regex").value_or(true);
    steps->push_back(prefixes ? "bytes after a space" : splits ? "bytes" : "letters");
  } else if (type == "Digits") {
    const bool one_by_one = bool_member(step, "individual_digits").value_or(false);
    steps->push_back(one_by_one ? "digits:1" : "digits");
  } else if (type == "Split") {
    const Json* pattern = member(step, "pattern");
    const bool is_plain = text_member(step, "behavior") == "Isolated" &&
                          !bool_member(step, "invert").value_or(false) && pattern != nullptr;
    const std::string regex = is_plain ? text_member(*pattern, "Regex").value_or("") : "";
    steps->push_back(regex.empty() ? "split of another kind" : "split:" + regex);
  } else {
    steps->push_back(type.empty() ? "a step without a type" : type);
  }
}

}  // namespace

std::string pre_tokenizer_name(const Json& json, const std::string& path) {
  std::vector<std::string> steps;
  if (const Json* pre = member(json, "pre_tokenizer")) add_steps(*pre, &steps);
  if (steps.empty()) {
    throw Error(fmt::format(
        "{}: it names no pre-tokenizer. Where you know which of this program's the model was "
        "trained with, choose it with ‹pre› NAME.",
        path));
  }
  const Json* model = member(json, "model");
  if (model != nullptr && bool_member(*model, "ignore_merges").value_or(false)) {
    steps.emplace_back("ignore_merges");
  }
  std::string line;
  for (const std::string& step : steps) line += (line.empty() ? "" : " ") + step;
  for (const Known& known : kKnown) {
    if (known.steps == line) return std::string(known.name);
  }
  throw Error(fmt::format(
      "{}: the pre-tokenizer ({}) is not known. Where you know that one of this program's does the "
      "same, choose it with ‹pre› NAME.",
      path, troika::quoted(line, 300)));
}

}  // namespace troika::convert
