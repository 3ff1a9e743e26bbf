// Splits a model file into several, as llama-gguf-split does: the first shard holds all metadata,
// and the tensors lie in their order in all shards.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gguf/file.h"
#include "gguf/split.h"
#include "gguf/writer.h"

namespace troika::test_support {

struct SplitFlaws {
  uint64_t n_tensors_off = 0;  // is added to the number of tensors that shard `flawed` tells
  uint32_t number_off = 0, count_off = 0;
  uint32_t flawed = 0;  // is the number of the wrong shard, from 1; 0: none is wrong
};

// Writes STEM-00001-of-0000N.gguf and so on. Returns their paths.
inline std::vector<std::string> split_model(const std::string& path, const std::string& stem,
                                            uint32_t n_shards, bool is_first_empty = false,
                                            const SplitFlaws& flaws = {}) {
  using gguf::Value;
  using gguf::ValueType;
  const gguf::File file = gguf::File::open(path);
  const gguf::ShardName name{stem, 1, n_shards};
  const auto tensors = file.tensors();
  const uint32_t n_holders = is_first_empty ? n_shards - 1 : n_shards;
  std::vector<std::string> paths;
  for (uint32_t shard = 0; shard < n_shards; ++shard) {
    const SplitFlaws off = flaws.flawed == shard + 1 ? flaws : SplitFlaws();
    paths.push_back(name.path_of(shard + 1));
    gguf::Writer writer(paths.back(), file.alignment());
    if (shard == 0) {
      for (const gguf::File::Entry& entry : file.metadata()) {
        if (entry.key != "general.alignment") writer.add_value(entry.key, entry.value);
      }
    }
    writer.add_value("split.no", Value{ValueType::kUint16, uint64_t{shard} + off.number_off});
    writer.add_value("split.count", Value{ValueType::kUint16, uint64_t{n_shards} + off.count_off});
    writer.add_value(
        "split.tensors.count",
        Value{ValueType::kInt32, static_cast<int64_t>(tensors.size() + off.n_tensors_off)});
    const uint32_t holder = is_first_empty ? shard - 1 : shard;
    const bool is_empty = is_first_empty && shard == 0;
    const size_t begin = is_empty ? 0 : tensors.size() * holder / n_holders;
    const size_t end = is_empty ? 0 : tensors.size() * (holder + 1) / n_holders;
    for (size_t i = begin; i < end; ++i) {
      writer.add_tensor(tensors[i].name, tensors[i].type, tensors[i].shape);
    }
    writer.begin_data();
    for (size_t i = begin; i < end; ++i) writer.write(file.data(tensors[i]));
    writer.finish();
  }
  return paths;
}

}  // namespace troika::test_support
