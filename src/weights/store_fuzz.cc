// Checks that the bytes of any model file either are refused with an Error, or are a model whose
// weights lie inside the file, in the shapes that its blueprint asks for.
//
// The first byte chooses an architecture, of which a small file of zeros is made. What follows are
// changes to its header, of which each is the place of a byte, in two, and what it is changed by.
// 255 says that the rest is the file.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/error.h"
#include "gguf/file.h"
#include "gguf/writer.h"
#include "model/architecture.h"
#include "model/known.h"
#include "weights/store.h"

namespace {

using namespace troika;  // NOLINT(google-build-using-namespace)

struct MadeFile {
  std::vector<std::byte> bytes;
  size_t header_bytes = 0;
};

MadeFile make_file(model::KnownModel model) {
  model.n_layers = 2;
  model.width = model.ffn_width = 64;
  model.n_heads = 4;
  model.n_kv_heads = model.n_kv_heads == 1 ? 1 : 2;
  model.head_dim = 16;
  model.rope_dims = model.architecture == "phi2" ? 8 : 0;
  model.n_vocab = 8;
  if (model.expert_width > 0) model.expert_width = 32;
  if (model.shared_width > 0) model.shared_width = 32;
  gguf::Writer writer;
  add_known_metadata(model, writer);
  writer.add_strings("tokenizer.ggml.tokens", std::vector<std::string>(model.n_vocab, "x"));
  for (const model::KnownTensor& tensor : known_tensors(model)) {
    writer.add_tensor(tensor.name,
                      tensor.shape.size() > 1 ? tensor::Type::kQ8_0 : tensor::Type::kF32,
                      tensor.shape);
  }
  uint64_t data_bytes = 0;
  const std::string header = writer.header(&data_bytes);
  MadeFile made{std::vector<std::byte>(header.size() + data_bytes), header.size()};
  std::memcpy(made.bytes.data(), header.data(), header.size());
  // Readers refuse zeros as factors of the rotation.
  const std::vector<float> factors = rope_factors(model);
  if (!factors.empty()) {
    const gguf::File file = gguf::File::parse(made.bytes, "made");
    std::memcpy(made.bytes.data() + file.shards()[0].data_offset +
                    file.get_tensor("rope_freqs.weight").offset,
                factors.data(), factors.size() * sizeof(float));
  }
  return made;
}

std::vector<MadeFile> make_all() {
  std::vector<MadeFile> all;
  for (const model::KnownModel& model : model::known_models()) {
    if (model.name.starts_with("tiny-")) all.push_back(make_file(model));
  }
  return all;
}

uint64_t sum = 0;  // keeps the compiler from dropping the reads

void read(std::span<const std::byte> bytes) {
  const gguf::File file = gguf::File::parse(bytes, "fuzz");
  const model::Blueprint blueprint = model::read(file);
  const weights::Store store(file, blueprint);
  for (size_t i = 0; i < blueprint.weights.size(); ++i) {
    const auto id = static_cast<model::WeightId>(i);
    if (!store.is_matrix(id)) continue;
    const weights::Matrix& matrix = store.matrix(id);
    for (const std::byte byte : std::span(matrix.data, matrix.bytes())) {
      sum += std::to_integer<uint64_t>(byte);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<MadeFile> all = make_all();
  if (size == 0) return 0;
  const auto rest = std::as_bytes(std::span(data, size)).subspan(1);
  try {
    if (data[0] == 255) {
      read(rest);
      return 0;
    }
    const MadeFile& made = all[data[0] % all.size()];
    std::vector<std::byte> bytes = made.bytes;
    for (size_t i = 0; i + 3 <= rest.size(); i += 3) {
      const size_t place =
          std::to_integer<size_t>(rest[i]) << 8 | std::to_integer<size_t>(rest[i + 1]);
      bytes[place % made.header_bytes] ^= rest[i + 2];
    }
    read(bytes);
  } catch (const Error&) {
    // What was made and not changed is right: else this program would see nothing behind the
    // header.
    if (size < 4 && data[0] != 255) __builtin_trap();
  }
  return 0;
}
