// Checks that any bytes are either refused in words, or are a predictor that lies whole in memory.
//
// The first byte chooses. 0: the rest is the file. Else it is changes to a right one, each the
// place of a byte, in two, and what it is changed by. Where it is even, the hash of the header is
// made again, because no invented bytes would have a right one.
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/memory_file_test_support.h"
#include "weights/neurons/predictor.h"

namespace {

using troika::weights::NeuronPredictor;

constexpr uint64_t kModelKey = 7;
constexpr size_t kHashedBytes = 96;  // of the header, which ends with their hash

// Returns the bytes of a predictor's file with zeros.
std::vector<std::byte> right_file() {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("troika-fuzz-" + std::to_string(getpid())))
          .string();
  NeuronPredictor({2, 3, 64, 32}, 0.9).write(path, kModelKey);
  const std::optional<std::string> text = troika::read_whole_file(path, 1 << 20);
  std::filesystem::remove(path);
  TROIKA_ASSERT(text);
  const auto bytes = std::as_bytes(std::span(*text));
  return {bytes.begin(), bytes.end()};
}

// Reads the file. Returns null where it is refused.
std::unique_ptr<NeuronPredictor> read(const std::string& path) {
  try {
    return NeuronPredictor::read(path, kModelKey);
  } catch (const troika::Error&) {
    return nullptr;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  static const troika::MemoryFile file;
  static const std::vector<std::byte> right = right_file();
  const auto rest = std::as_bytes(std::span(data, size)).subspan(1);
  std::vector<std::byte> bytes(rest.begin(), rest.end());
  const bool is_changed = data[0] != 0;
  if (is_changed) {
    bytes = right;
    for (size_t i = 0; i + 3 <= rest.size(); i += 3) {
      const size_t place =
          std::to_integer<size_t>(rest[i]) << 8 | std::to_integer<size_t>(rest[i + 1]);
      bytes[place % bytes.size()] ^= rest[i + 2];
    }
    if (data[0] % 2 == 0) {
      const uint64_t hash = troika::hash_of(std::span(bytes).first(kHashedBytes));
      std::memcpy(bytes.data() + kHashedBytes, &hash, sizeof(hash));
    }
  }
  file.set(bytes);
  const auto predictor = read(file.path());
  // Otherwise this program would never see what stands behind the hash.
  TROIKA_ASSERT(predictor != nullptr || !is_changed || bytes != right);
  if (predictor == nullptr) return 0;
  TROIKA_ASSERT(predictor->bytes() ==
                predictor->shape().n_layers * predictor->shape().layer_bytes());
  for (uint64_t i = 0; i < predictor->shape().n_layers; ++i) {
    const NeuronPredictor::Layer layer = predictor->layer(i);
    TROIKA_ASSERT(layer.in != nullptr && layer.out > layer.in);
  }
  return 0;
}
