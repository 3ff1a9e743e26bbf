// A small model file for tests. It has the metadata and tensors of an architecture, all weights
// zero, but for what a test changes.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gguf/file.h"
#include "gguf/writer.h"
#include "model/known.h"
#include "tests/support/temp_folder.h"

namespace troika::test_support {

inline model::KnownModel small_known(std::string_view name) {
  model::KnownModel model = model::get_known(name);
  model.n_layers = 2;
  model.width = 48;
  model.n_heads = 4;
  model.n_kv_heads = model.n_kv_heads == 1 ? 1 : 2;
  model.head_dim = 16;
  model.rope_dims = model.architecture == "phi2" ? 8 : 0;
  model.ffn_width = 80;
  model.n_vocab = 20;
  if (model.expert_width > 0) model.expert_width = 24;
  if (model.shared_width > 0) model.shared_width = 40;
  return model;
}

class KnownFile {
 public:
  using Tensors = std::vector<model::KnownTensor>;

  explicit KnownFile(model::KnownModel model) : model(model), tensors(known_tensors(model)) {
    const std::vector<float> factors = rope_factors(model);
    // A file with factors of zero is refused.
    if (!factors.empty()) floats["rope_freqs.weight"] = factors;
  }

  model::KnownModel model;
  Tensors tensors;
  std::map<std::string, tensor::Type> types;  // tensors that are not named are F32
  std::vector<std::string> without_keys;      // names metadata that is left out
  std::map<std::string, gguf::Value> values;  // is added to the metadata or replaces it
  // These are the data of F32 tensors that are not zero.
  std::map<std::string, std::vector<float>> floats;

  model::KnownTensor& tensor(const std::string& name) {
    for (model::KnownTensor& t : tensors) {
      if (t.name == name) return t;
    }
    throw std::runtime_error("no tensor " + name);
  }
  void remove(const std::string& name) {
    std::erase_if(tensors, [&](const auto& t) { return t.name == name; });
  }

  gguf::File open() const {
    const test::TempFolder folder;  // may go before the file: the mapping keeps it
    return open_in(folder);
  }
  // Opens the file as model.gguf of a folder in which it stays.
  gguf::File open_in(const test::TempFolder& folder) const {
    const std::string plain = folder.file("plain.gguf");
    {
      gguf::Writer writer(plain);
      add_known_metadata(model, writer);
      writer.begin_data();
      writer.finish();
    }
    const gguf::File keys = gguf::File::open(plain);
    const std::string path = folder.file("model.gguf");
    gguf::Writer writer(path);
    for (const gguf::File::Entry& entry : keys.metadata()) {
      const std::string key(entry.key);
      if (std::count(without_keys.begin(), without_keys.end(), key) > 0) continue;
      if (values.count(key) == 0) writer.add_value(key, entry.value);
    }
    for (const auto& [key, value] : values) writer.add_value(key, value);
    const std::vector<std::string> vocabulary(model.n_vocab, "x");
    writer.add_strings("tokenizer.ggml.tokens", vocabulary);
    for (const model::KnownTensor& t : tensors) writer.add_tensor(t.name, type_of(t), t.shape);
    writer.begin_data();
    for (const model::KnownTensor& t : tensors) {
      uint64_t n_rows = 1;
      for (size_t i = 1; i < t.shape.size(); ++i) n_rows *= t.shape[i];
      const size_t length = t.shape.empty() ? 1 : t.shape[0];
      std::vector<std::byte> bytes(n_rows * tensor::row_bytes(type_of(t), length));
      const auto found = floats.find(t.name);
      if (found != floats.end()) std::memcpy(bytes.data(), found->second.data(), bytes.size());
      writer.write(bytes);
    }
    writer.finish();
    return gguf::File::open(path);
  }

 private:
  tensor::Type type_of(const model::KnownTensor& t) const {
    const auto found = types.find(t.name);
    return found == types.end() ? tensor::Type::kF32 : found->second;
  }
};

}  // namespace troika::test_support
