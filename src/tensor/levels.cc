#include "tensor/levels.h"

#include <array>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "tensor/blocks.h"

namespace troika::tensor {
namespace {

struct Unpacker {
  Type type;
  size_t group;
  void (*unpack)(const void*, size_t, int8_t*, Affine*);
};

template <typename Block>
void unpack_row(const void* row, size_t n, int8_t* levels, Affine* groups) {
  const auto* bytes = static_cast<const std::byte*>(row);
  for (size_t i = 0; i < n; i += Block::kLength, bytes += sizeof(Block)) {
    Block block;
    std::memcpy(&block, bytes, sizeof(Block));
    unpack(block, levels + i);
    find_groups(block, groups + i / Block::kGroup);
  }
}

template <Type kType>
constexpr Unpacker unpacker_of() {
  if constexpr (is_float(kType)) {
    return {kType, 0, nullptr};
  } else {
    return {kType, BlockOf<kType>::kGroup, unpack_row<BlockOf<kType>>};
  }
}

template <size_t... kIndices>
constexpr auto all_unpackers(std::index_sequence<kIndices...>) {
  return std::array{unpacker_of<kTypeTable[kIndices].type>()...};
}
constexpr auto kUnpackers = all_unpackers(std::make_index_sequence<std::size(kTypeTable)>());

const Unpacker& unpacker(Type type) {
  for (const Unpacker& unpacker : kUnpackers) {
    if (unpacker.type == type) return unpacker;
  }
  assert_failed("every type of the table has an unpacker", __FILE__, __LINE__);
}

}  // namespace

size_t group_length(Type type) { return unpacker(type).group; }

void unpack_levels(Type type, const void* row, size_t n, int8_t* levels, Affine* groups) {
  const Unpacker& of_type = unpacker(type);
  TROIKA_ASSERT(of_type.unpack != nullptr && n % type_info(type).block_length == 0);
  of_type.unpack(row, n, levels, groups);
}

}  // namespace troika::tensor
