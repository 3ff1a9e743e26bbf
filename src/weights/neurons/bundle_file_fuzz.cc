// Checks that any bytes are either refused in words, or are the tables of a file of bundles, with
// every neuron once in the order of each layer.
//
// Bits of the first byte choose. 1: bundles of two pieces, which have a check each, or of one. 2:
// the rest is the file; else it is changes to a right file, whose hashes are made again before it
// is read (unless 4 is set), because no invented bytes would have right ones.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "weights/fast_hash.h"
#include "weights/neurons/bundle_file.h"

namespace {

using troika::weights::BundleLayout;
using troika::weights::BundleShape;
using troika::weights::BundleTables;
using Header = BundleLayout::Header;

constexpr BundleShape kOnePiece = {2, 5, 300, 40};
constexpr BundleShape kTwoPieces = {2, 5, 6656, 40, 4096};
constexpr BundleTables::Keys kKeys = {1, 2, 3};

// A file of bundles in memory, whose bundles are zeros.
class MadeFile {
 public:
  explicit MadeFile(const BundleShape& shape) : layout_(shape), bytes_(layout_.file_bytes()) {
    const Header header = {"troika-bundles", 4,     kKeys.model,          kKeys.form,
                           kKeys.order,      shape, layout_.file_bytes(), 0};
    std::memcpy(bytes_.data(), &header, sizeof(header));
    for (uint64_t layer = 0; layer < shape.n_layers; ++layer) {
      for (uint32_t neuron = 0; neuron < shape.n_neurons; ++neuron) {
        std::memcpy(bytes_.data() + layout_.tables_offset(layer) + neuron * sizeof(neuron), &neuron,
                    sizeof(neuron));
      }
    }
    make_hashes();
  }

  // Changes a byte of what is read: the header, the tables or the hashes.
  void change(size_t place, std::byte by) {
    std::vector<std::span<std::byte>> parts = {part(0, sizeof(Header)), hashes()};
    for (uint64_t layer = 0; layer < layout_.shape().n_layers; ++layer) {
      parts.push_back(part(layout_.tables_offset(layer), layout_.table_bytes()));
    }
    size_t n_bytes = 0;
    for (const std::span<std::byte> one : parts) n_bytes += one.size();
    place %= n_bytes;
    for (const std::span<std::byte> one : parts) {
      if (place < one.size()) {
        one[place] ^= by;
        return;
      }
      place -= one.size();
    }
  }

  void make_hashes() {
    const BundleShape& shape = layout_.shape();
    std::vector<uint64_t> values;
    for (uint64_t layer = 0; layer < shape.n_layers; ++layer) {
      uint64_t begin = layout_.tables_offset(layer);
      troika::weights::FastHash hash;
      for (const uint64_t n :
           {layout_.order_bytes(), layout_.checks_bytes(), shape.resident_bytes}) {
        hash.add(part(begin, n));
        begin += n;
      }
      values.push_back(hash.value());
    }
    values.push_back(troika::hash_of(std::as_bytes(std::span(values))));
    std::memcpy(hashes().data(), values.data(), hashes().size());
    const uint64_t of_header = troika::hash_of(part(0, offsetof(Header, hash)));
    std::memcpy(bytes_.data() + offsetof(Header, hash), &of_header, sizeof(of_header));
  }

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> part(uint64_t offset, uint64_t n) {
    return std::span(bytes_).subspan(offset, n);
  }
  std::span<std::byte> hashes() {
    return part(layout_.hashes_offset(), (layout_.shape().n_layers + 1) * sizeof(uint64_t));
  }

  BundleLayout layout_;
  std::vector<std::byte> bytes_;
};

// Reads the file. Returns what is wrong with it.
std::string read(std::span<const std::byte> bytes, const BundleShape& shape) {
  const auto read_at = [&](uint64_t offset, std::span<std::byte> to) {
    if (offset > bytes.size() || to.size() > bytes.size() - offset) return false;
    std::memcpy(to.data(), bytes.data() + offset, to.size());
    return true;
  };
  BundleTables tables;
  std::string problem = tables.read(read_at, bytes.size(), shape, kKeys);
  if (!problem.empty()) return problem;
  for (uint64_t layer = 0; layer < shape.n_layers; ++layer) {
    std::vector<bool> has(shape.n_neurons);
    for (const uint32_t neuron : tables.order(layer)) {
      TROIKA_ASSERT(!has.at(neuron));
      has.at(neuron) = true;
    }
  }
  return {};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const unsigned choice = size > 0 ? data[0] : 0;
  const auto rest = std::as_bytes(std::span(data, size)).subspan(size > 0 ? 1 : 0);
  const BundleShape& shape = (choice & 1) != 0 ? kTwoPieces : kOnePiece;
  if ((choice & 2) != 0) {
    (void)read(rest, shape);
    return 0;
  }
  MadeFile file(shape);
  // A change is the number of a byte, in two, and what it is changed by.
  for (size_t i = 0; i + 3 <= rest.size(); i += 3) {
    file.change(std::to_integer<size_t>(rest[i]) << 8 | std::to_integer<size_t>(rest[i + 1]),
                rest[i + 2]);
  }
  if ((choice & 4) == 0) file.make_hashes();
  const std::string problem = read(file.bytes(), shape);
  // Otherwise this program would never see what stands behind the hashes.
  TROIKA_ASSERT(problem.empty() || rest.size() >= 3);
  return 0;
}
