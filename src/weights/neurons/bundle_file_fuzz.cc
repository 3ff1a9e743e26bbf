// Checks that any bytes are either refused in words, or are the tables of a file of bundles, with
// every neuron once in the order of each layer.
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/error.h"
#include "weights/neurons/bundle_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using troika::weights::BundleTables;
  if (size == 0) return 0;
  // The first byte chooses bundles of one piece, or of two, which have a check each.
  const bool has_two_pieces = (data[0] & 1) != 0;
  const troika::weights::BundleShape one_piece = {2, 5, 300, 40},
                                     two_pieces = {2, 5, 6656, 40, 4096};
  const troika::weights::BundleShape& shape = has_two_pieces ? two_pieces : one_piece;
  ++data, --size;
  const auto read_at = [&](uint64_t offset, std::span<std::byte> to) {
    if (offset > size || to.size() > size - offset) return false;
    std::memcpy(to.data(), data + offset, to.size());
    return true;
  };
  BundleTables tables;
  if (!tables.read(read_at, size, shape, {1, 2}).empty()) return 0;
  for (uint64_t layer = 0; layer < shape.n_layers; ++layer) {
    std::vector<bool> has(shape.n_neurons);
    for (const uint32_t neuron : tables.order(layer)) {
      TROIKA_ASSERT(!has.at(neuron));
      has.at(neuron) = true;
    }
  }
  return 0;
}
