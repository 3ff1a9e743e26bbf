// A model that is split over several files, NAME-00001-of-0000N.gguf, and what their names and
// headers say about that. Each of the files is a shard; messages for people say "part".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "gguf/header.h"

namespace troika::gguf {

// What a file's name says: which of how many shards it is. Both numbers count from 1.
struct ShardName {
  std::string stem;  // the path before "-00001-of-00003.gguf"
  uint32_t number = 1;
  uint32_t count = 1;

  std::string path_of(uint32_t number) const;
};
// Returns nothing where the path is no name of a shard.
std::optional<ShardName> parse_shard_name(std::string_view path);

// What a file's header says about shards. A model in one file has one shard.
struct SplitFacts {
  uint32_t number = 1;  // counted from 1, as in the names
  uint32_t count = 1;
  std::optional<uint64_t> n_tensors;  // counts the tensors of all shards together
};
// Reads these facts. Throws Error for values that cannot be.
SplitFacts split_facts(const Header& header, std::string_view name);

// Throws Error, with what to do, unless this header is that of shard `number` of the model whose
// first shard has the header `first`.
void check_shard(const Header& shard, std::string_view shard_name, uint32_t number,
                 const Header& first, std::string_view first_name);

}  // namespace troika::gguf
