// Decides which files of a repository are a model together, and which model a name means.
#include <fmt/format.h>

#include <algorithm>
#include <compare>
#include <map>

#include "base/bytes_text.h"
#include "base/error.h"
#include "base/os_error.h"
#include "fetch/listing.h"
#include "gguf/split.h"

namespace troika::fetch {
namespace {

constexpr size_t kMostNamed = 40;  // a message names at most this many models

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return out;
}

std::string name_of(std::string_view path) { return std::string(path.substr(path.rfind('/') + 1)); }

std::string_view without_end(std::string_view path) {
  return path.substr(0, path.size() - std::string_view(".gguf").size());
}

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Says whether the name of an element type can begin with a word: "Q4", "IQ2", "TQ1", "F16",
// "MXFP4".
bool begins_type(std::string_view word) {
  for (const char* whole : {"F16", "F32", "BF16", "FP16", "FP32", "MXFP4"}) {
    if (word == whole) return true;
  }
  if (word.starts_with("I") || word.starts_with("T")) word.remove_prefix(1);
  return word.starts_with("Q") && word.size() == 2 && is_digits(word.substr(1));
}

// Says whether the name of an element type can go on with a word: "K", "M", "XXS", "0".
bool continues_type(std::string_view word) {
  for (const char* whole : {"K", "S", "M", "L", "XS", "XXS", "XL", "XXL", "NL"}) {
    if (word == whole) return true;
  }
  return word.size() == 1 && is_digits(word);
}

// Returns the words between `separators`.
std::vector<std::string> words_of(std::string_view text, std::string_view separators) {
  std::vector<std::string> words;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find_first_of(separators, begin), text.size());
    words.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

// Returns the type with which a name without ".gguf" and shard number ends: "UD-Q4_K_XL". Empty
// where it names none.
std::string type_in(std::string_view stem) {
  std::string found, before;
  for (const std::string& token : words_of(upper(stem), "-.")) {
    const std::vector<std::string> words = words_of(token, "_");
    for (size_t i = 0; i < words.size(); ++i) {
      if (!begins_type(words[i])) continue;
      // "UD" marks another recipe for the same type, by somebody who uploads many models: both may
      // lie side by side.
      found = (i == 0 && before == "UD" ? "UD-" : "") + words[i];
      while (i + 1 < words.size() && continues_type(words[i + 1])) found += "_" + words[++i];
    }
    before = token;
  }
  return found;
}

// Returns the bits of a weight as the label says; 0, which means unknown, for labels without a
// number.
int bits_of(const std::string& label) {
  if (label.ends_with("F16") || label.ends_with("FP16")) return 16;
  if (label.ends_with("32")) return 32;
  const size_t digit = label.find_first_of("0123456789");
  return digit == std::string::npos || type_in(label).empty() ? 0 : label[digit] - '0';
}

std::string list_of(const std::vector<const HubModel*>& models, bool by_file) {
  std::string text;
  for (size_t i = 0; i < models.size() && i < kMostNamed; ++i) {
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ",
                        by_file ? models[i]->files.front().path : models[i]->label,
                        bytes_text(models[i]->bytes()));
  }
  if (models.size() > kMostNamed) text += ", ...";
  return text;
}

bool means(std::string_view quant, const HubModel& model) {
  const std::string name = model.file_name(), &path = model.files.front().path;
  const std::string word = upper(quant);
  return word == upper(model.label) || word == upper(name) || word == upper(without_end(name)) ||
         word == upper(path) || word == upper(without_end(path));
}

const HubModel& only_one(const std::vector<const HubModel*>& models, std::string_view name) {
  if (models.size() == 1) return *models.front();
  throw Error(fmt::format("{} means several files: {}. Name one: hf:ORG/REPO:FILE.", name,
                          list_of(models, true)));
}

const HubModel& default_model(const std::vector<const HubModel*>& models, std::string_view name) {
  for (const char* label : {"Q4_K_M", "Q4_0"}) {
    std::vector<const HubModel*> same;
    for (const HubModel* model : models) {
      if (model->label == label) same.push_back(model);
    }
    if (!same.empty()) return only_one(same, name);
  }
  const HubModel* best = nullptr;
  for (const HubModel* model : models) {
    const bool is_fine = bits_of(model->label) >= 4;
    const bool is_best_fine = best != nullptr && bits_of(best->label) >= 4;
    if (best == nullptr || (is_fine && !is_best_fine) ||
        (is_fine == is_best_fine &&
         (is_fine ? model->bytes() < best->bytes() : model->bytes() > best->bytes()))) {
      best = model;
    }
  }
  return *best;
}

// Says whether a file, whose name is in capitals, holds an importance matrix. A model that was
// quantised with one may say so in its name, and then says its type too.
bool is_importance_matrix(std::string_view name) {
  return name.find("IMATRIX") != std::string_view::npos && type_in(without_end(name)).empty();
}

// Says whether a file, whose name is in capitals, holds a projector of images or sounds: some put
// "mmproj" before the model's name, others behind it.
bool is_projector(std::string_view name) {
  const std::vector<std::string> words = words_of(name, "-._");
  return std::any_of(words.begin(), words.end(),
                     [](const std::string& word) { return word.starts_with("MMPROJ"); });
}

// Returns a sentence about those of the files that were left out that `quant` means, or all where
// it is empty; nothing where there are none.
std::string left_out_text(const std::vector<std::string>& left_out, std::string_view quant) {
  std::string text;
  size_t n = 0;
  for (const std::string& path : left_out) {
    const HubModel model = {type_in(without_end(name_of(path))), {{path, 0, ""}}};
    if (!quant.empty() && !means(quant, model)) continue;
    if (n++ < kMostNamed) text += fmt::format("{}{}", n == 1 ? "" : ", ", troika::quoted(path));
  }
  if (n == 0) return "";
  return fmt::format(
      " It has {}{}, which this program leaves out because of the name: download it with a "
      "browser, "
      "and give the path of the file.",
      text, n > kMostNamed ? ", ..." : "");
}

}  // namespace

uint64_t HubModel::bytes() const {
  uint64_t sum = 0;  // cannot overflow: few files of at most 2^50 bytes
  for (const HubFile& file : files) sum += file.bytes;
  return sum;
}

std::string HubModel::file_name() const { return name_of(files.front().path); }

std::vector<HubModel> models_of(const std::vector<HubFile>& files) {
  // Shards of one model are found by what their names have in common, and stand in the order of
  // their numbers.
  struct Key {
    std::string stem;
    uint32_t count;  // of shards; 0: a file that is no shard
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, std::map<uint32_t, HubFile>> groups;
  for (const HubFile& file : files) {
    const std::string name = upper(name_of(file.path));
    if (is_projector(name) || is_importance_matrix(name)) continue;
    const auto shard = gguf::parse_shard_name(file.path);
    const Key key = {shard ? std::string(shard->stem) : file.path, shard ? shard->count : 0};
    groups[key].emplace(shard ? shard->number : 1, file);
  }
  std::vector<HubModel> models;
  for (auto& [key, shards] : groups) {
    HubModel model;
    const auto first = gguf::parse_shard_name(shards.begin()->second.path);
    const std::string stem =
        name_of(first ? std::string_view(first->stem) : without_end(shards.begin()->second.path));
    model.label = type_in(stem);
    if (model.label.empty()) model.label = stem;
    model.is_complete = key.count == 0 || shards.size() == key.count;
    for (auto& [number, file] : shards) model.files.push_back(std::move(file));
    models.push_back(std::move(model));
  }
  std::stable_sort(models.begin(), models.end(),
                   [](const HubModel& a, const HubModel& b) { return a.label < b.label; });
  return models;
}

const HubModel& choose_model(const std::vector<HubModel>& models, std::string_view quant,
                             std::string_view name, const std::vector<std::string>& left_out) {
  std::vector<const HubModel*> all, meant;
  for (const HubModel& model : models) {
    all.push_back(&model);
    if (means(quant, model)) meant.push_back(&model);
  }
  // A whole path means its file alone, even if a file of the same name lies in a folder.
  for (const HubModel& model : models) {
    if (model.files.front().path == quant) meant = {&model};
  }
  const std::string more = all.empty() || meant.empty() ? left_out_text(left_out, quant) : "";
  if (all.empty() && !more.empty()) {
    throw Error(fmt::format("{} holds no GGUF file that can be downloaded.{}", name, more));
  }
  if (all.empty()) {
    throw Error(
        fmt::format("{} holds no GGUF file. Look for a repository whose name ends in "
                    "-GGUF, or make a file with 'troika convert'.",
                    name));
  }
  if (!quant.empty() && meant.empty()) {
    throw Error(fmt::format("{} holds no {}. It has: {}.{}", name, troika::quoted(quant),
                            list_of(all, false), more));
  }
  const HubModel& chosen = quant.empty() ? default_model(all, name) : only_one(meant, name);
  if (!chosen.is_complete) {
    throw Error(
        fmt::format("{}: the repository has only {} of the parts of {}. Choose "
                    "another: {}.",
                    name, chosen.files.size(), chosen.file_name(), list_of(all, false)));
  }
  return chosen;
}

}  // namespace troika::fetch
