#include "text/splitter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/os_error.h"
#include "text/patterns.h"

namespace troika::text {
namespace {

namespace p = patterns;

// \s+$
void split_trailing_spaces(const View& view, std::vector<size_t>* ends) {
  size_t begin = view.end();
  while (begin > view.begin() && view.is(begin - 1, kWhite)) --begin;
  if (begin > view.begin()) ends->push_back(begin);
  if (begin < view.end()) ends->push_back(view.end());
}

struct Family {
  std::vector<std::string_view> names;
  Splitter splitter;
};

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      {{"default"},
       {{split_by<p::default_signs>, split_by<p::gpt2>, split_by<p::numbers>,
         split_by<p::three_digits>}}},
      {{"gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling", "exaone4",
        "jina-es", "jina-de", "jina-v2-es", "jina-v2-de", "jina-v1-en", "jina-v2-code",
        "roberta-bpe", "gigachat", "a.x-4.0", "mellum", "modern-bert"},
       {{split_by<p::gpt2>}}},
      {{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b",
        "mellum2"},
       {{split_by<p::number>, split_by<p::gpt2>}}},
      {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
        "jina-v5-nano"},
       {.cuts = {split_by<p::llama3>}, .ignore_merges = true}},
      {{"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"}, {{split_by<p::llama3>}}},
      {{"qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "hunyuan", "solar-open", "grok-2",
        "kormo", "f2llmv2", "bailingmoe", "bailingmoe2", "llada-moe"},
       {{split_by<p::qwen2>}}},
      {{"qwen35"}, {{split_by<p::qwen35>}}},
      {{"laguna"}, {{split_by<p::line>, split_by<p::qwen2>}}},
      {{"seed-coder"}, {{split_by<p::seed_coder>}}},
      {{"minicpm5"},
       {.cuts = {split_by<p::three_numbers>, split_by<p::minicpm5>}, .ignore_merges = true}},
      {{"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"}, {{split_by<p::gpt4o>}}},
      {{"tekken"}, {.cuts = {split_by<p::tekken>}, .ignore_merges = true}},
      {{"deepseek-llm"},
       {{split_by<p::newline>, split_by<p::deepseek_letters>, split_by<p::deepseek_signs>,
         split_trailing_spaces, split_by<p::deepseek_east_asian>, split_by<p::numbers>}}},
      {{"deepseek-coder"},
       {{split_by<p::newline>, split_by<p::space_letters>, split_by<p::space_punctuation>,
         split_by<p::deepseek_east_asian>, split_by<p::number>}}},
      {{"deepseek-v3", "hunyuan-dense", "joyai-llm"},
       {{split_by<p::three_numbers>, split_by<p::deepseek3_east_asian>, split_by<p::deepseek3>}}},
      {{"falcon"}, {{split_by<p::falcon_signs>, split_by<p::gpt2>, split_by<p::three_digits>}}},
      {{"poro-chat", "bloom", "gpt3-finnish"}, {{split_by<p::bloom>}}},
      {{"viking"}, {{split_by<p::bloom>, split_by<p::number>}}},
  };
  return all;
}

}  // namespace

std::vector<std::string_view> splitter_names() {
  std::vector<std::string_view> names;
  for (const Family& family : families()) {
    names.insert(names.end(), family.names.begin(), family.names.end());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void check_given_splitter(std::string_view name) {
  const std::vector<std::string_view> names = splitter_names();
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  throw UsageError(fmt::format("‹pre› {}: there is no such pre-tokenizer. Known are: {}.",
                               troika::quoted(name), fmt::join(names, ", ")));
}

Splitter find_splitter(std::string_view name) {
  for (const Family& family : families()) {
    if (std::find(family.names.begin(), family.names.end(), name) != family.names.end()) {
      return family.splitter;
    }
  }
  throw Error(
      fmt::format("The pre-tokenizer {} (tokenizer.ggml.pre) is not known. Choose the one "
                  "that fits the model with ‹pre› NAME; known are: {}.",
                  troika::quoted(name), fmt::join(splitter_names(), ", ")));
}

std::vector<std::string_view> split(const Splitter& splitter, std::string_view text) {
  const Characters characters(text);
  std::vector<size_t> ends;
  if (characters.size() > 0) ends.push_back(characters.size());
  std::vector<size_t> next;
  for (const Cut cut : splitter.cuts) {
    next.clear();
    size_t begin = 0;
    for (size_t end : ends) {
      cut(View(characters, begin, end), &next);
      begin = end;
    }
    ends.swap(next);
  }
  std::vector<std::string_view> words;
  words.reserve(ends.size());
  size_t begin = 0;
  for (size_t end : ends) {
    const size_t first = characters.begins[begin];
    words.push_back(text.substr(first, characters.begins[end] - first));
    begin = end;
  }
  return words;
}

}  // namespace troika::text
