#include "forge/synth.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "base/threads/team.h"
#include "forge/distribution.h"
#include "forge/file_type.h"
#include "forge/plant_attention.h"
#include "forge/plant_sparsity.h"
#include "forge/random_key.h"
#include "forge/random_normal.h"
#include "forge/row_stream.h"
#include "forge/synth_tokenizer.h"
#include "gguf/writer.h"
#include "model/known.h"
#include "tensor/codec.h"

namespace troika::forge {
namespace {

using model::KnownTensor;
using model::TensorRole;

// Matrices up to this size get a fresh number for every element. Encoding billions of numbers would
// take minutes, so larger ones consist of encoded pieces, chosen at random from a store. Values,
// their spread and the rank of the matrix are the same; only pieces repeat.
constexpr uint64_t kMaxFreshElements = uint64_t{1} << 18;
constexpr uint64_t kPieces = 2048;
constexpr uint64_t kPieceLength = 256;

// Returns the spread of a tensor's values. Each matrix keeps the size of its input; logits spread
// by about 3. With tied embeddings the row of the last token would win every time, unless what the
// layers add outweighs the embedding, which Gemma scales up by the root of the width.
Distribution distribution_of(const KnownTensor& tensor, const model::KnownModel& model) {
  const float spread = 1.0F / std::sqrt(static_cast<float>(tensor.shape[0]));
  switch (tensor.role) {
    case TensorRole::kEmbedding:
      return {0.0F, 3.0F * spread};
    case TensorRole::kMatrix:
      return {0.0F, tensor.name == "output.weight" ? 3.0F * spread : spread};
    case TensorRole::kInnerMatrix: {
      float gain = model.tied_embeddings ? 12.0F : 2.0F;
      if (model.architecture.starts_with("gemma"))
        gain *= std::sqrt(static_cast<float>(model.width));
      return {0.0F, gain * spread / std::sqrt(2.0F * static_cast<float>(model.n_layers))};
    }
    case TensorRole::kNorm: {
      // A norm of what a block adds undoes the gain of matrices and has a gain of its own.
      const bool is_behind = tensor.name.find(".post_") != std::string::npos;
      const float size = is_behind ? 12.0F * std::sqrt(0.5F * static_cast<float>(model.width) /
                                                       static_cast<float>(model.n_layers))
                                   : 1.0F;
      return {size, 0.1F * size};
    }
    case TensorRole::kBias:
    case TensorRole::kRopeFactors:
      break;
  }
  return {0.0F, 0.05F};
}

void fill(std::vector<float>& values, uint64_t key, uint64_t first, Distribution distribution) {
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = distribution.mean + distribution.deviation * random_normal(key, first + i);
  }
}

class Synthesizer {
 public:
  // `attention` plants attention; it may be null.
  Synthesizer(const SynthOptions& options, const model::KnownModel& model,
              const AttentionPlanter* attention, gguf::Writer& writer)
      : options_(options),
        model_(model),
        attention_(attention),
        writer_(writer),
        team_(std::max(options.n_threads, 1)),
        rows_(static_cast<size_t>(team_.size())) {
    if (options.sparsity.is_planted()) {
      planter_ = std::make_unique<SparsityPlanter>(options.sparsity, model, options.seed);
    }
  }

  void add_total(uint64_t bytes) { total_bytes_ += bytes; }

  void write(const KnownTensor& tensor, tensor::Type type) {
    if (tensor.role == TensorRole::kRopeFactors) {
      const std::vector<float> factors = model::rope_factors(model_);
      writer_.write(std::as_bytes(std::span(factors)));
      report(factors.size() * sizeof(float));
      return;
    }
    const auto count = [&](uint64_t bytes) { report(bytes); };
    if (planter_ != nullptr && planter_->write(tensor, type, writer_, team_, count)) return;
    if (attention_ != nullptr && attention_->write(tensor, type, writer_, team_, count)) return;
    uint64_t n_elements = 1;
    for (const uint64_t length : tensor.shape) n_elements *= length;
    const uint64_t key = random_key(options_.seed, tensor.name);
    Distribution distribution = distribution_of(tensor, model_);
    if (attention_ != nullptr) {
      distribution = attention_->distribution_of(tensor).value_or(distribution);
    }
    if (n_elements > kMaxFreshElements && n_elements % kPieceLength == 0 &&
        kPieceLength % tensor::type_info(type).block_length == 0) {
      write_pieces(type, n_elements / kPieceLength, key, distribution);
    } else {
      write_fresh(type, tensor.shape[0], n_elements / tensor.shape[0], key, distribution);
    }
  }

 private:
  void write_fresh(tensor::Type type, uint64_t length, uint64_t n_rows, uint64_t key,
                   Distribution distribution) {
    const size_t row_bytes = tensor::row_bytes(type, length);
    stream_rows(
        writer_, team_, n_rows, row_bytes,
        [&](int worker, uint64_t first, uint64_t n, std::byte* out) {
          std::vector<float>& row = rows_[static_cast<size_t>(worker)];
          row.resize(length);
          for (uint64_t i = 0; i < n; ++i) {
            fill(row, key, (first + i) * length, distribution);
            tensor::quantize_row(type, row.data(), out + i * row_bytes, length);
          }
        },
        [&](uint64_t n) { report(n * row_bytes); });
  }

  void write_pieces(tensor::Type type, uint64_t n_pieces, uint64_t key, Distribution distribution) {
    const size_t piece_bytes = tensor::row_bytes(type, kPieceLength);
    const std::vector<std::byte>& store = store_of(type, distribution);
    stream_rows(
        writer_, team_, n_pieces, piece_bytes,
        [&](int /*worker*/, uint64_t first, uint64_t n, std::byte* out) {
          for (uint64_t i = 0; i < n; ++i) {
            const uint64_t choice = random_bits(key, first + i) % kPieces;
            std::memcpy(out + i * piece_bytes, store.data() + choice * piece_bytes, piece_bytes);
          }
        },
        [&](uint64_t n) { report(n * piece_bytes); });
  }

  // Returns the store of pieces that all tensors of a type and spread share.
  const std::vector<std::byte>& store_of(tensor::Type type, Distribution distribution) {
    std::vector<std::byte>& store = stores_[{type, distribution.deviation}];
    if (!store.empty()) return store;
    const size_t piece_bytes = tensor::row_bytes(type, kPieceLength);
    const uint64_t key = random_key(options_.seed, "pieces");
    store.resize(kPieces * piece_bytes);
    team_.run([&](int worker) {
      std::vector<float> piece(kPieceLength);
      const Share share = share_of(kPieces, worker, team_.size());
      for (auto i = static_cast<uint64_t>(share.begin); i < static_cast<uint64_t>(share.end); ++i) {
        fill(piece, key, i * kPieceLength, distribution);
        tensor::quantize_row(type, piece.data(), store.data() + i * piece_bytes, kPieceLength);
      }
    });
    return store;
  }

  void report(uint64_t bytes) {
    done_bytes_ += bytes;
    if (options_.progress) options_.progress(done_bytes_, total_bytes_);
  }

  const SynthOptions& options_;
  const model::KnownModel& model_;
  const AttentionPlanter* attention_;
  gguf::Writer& writer_;
  Team team_;
  std::vector<std::vector<float>> rows_;  // one for each worker
  std::unique_ptr<SparsityPlanter> planter_;
  std::map<std::pair<tensor::Type, float>, std::vector<std::byte>> stores_;
  uint64_t total_bytes_ = 0;
  uint64_t done_bytes_ = 0;
};

uint64_t tensor_bytes(const KnownTensor& tensor, tensor::Type type) {
  uint64_t n_rows = 1;
  for (size_t d = 1; d < tensor.shape.size(); ++d) n_rows *= tensor.shape[d];
  return n_rows * tensor::row_bytes(type, tensor.shape[0]);
}

// Returns the shapes of the model, or of its first blocks.
model::KnownModel shapes_for(const SynthOptions& options) {
  model::KnownModel model = model::get_known(options.like);
  if (options.n_blocks == 0) return model;
  if (options.n_blocks < 0 || options.n_blocks > static_cast<int>(model.n_layers)) {
    throw UsageError(fmt::format("‹blocks› {} makes no sense: {} has {} blocks.", options.n_blocks,
                                 model.name, model.n_layers));
  }
  model.n_layers = static_cast<uint32_t>(options.n_blocks);
  return model;
}

}  // namespace

SynthReport synth(const SynthOptions& options) {
  const model::KnownModel model = shapes_for(options);
  const FileType& file_type = get_file_type(options.type);
  const ModelFacts facts{model.n_layers, model.n_experts, model.tied_embeddings,
                         model.n_heads / model.n_kv_heads};
  const std::vector<KnownTensor> tensors = model::known_tensors(model);

  if (options.sparsity.is_planted() && options.attention.is_planted()) {
    throw UsageError(
        "‹plant-sparsity› and ‹plant-attention› give tokens different embeddings, and a file has "
        "one of them. Make two files.");
  }
  if (options.sparsity.is_planted()) SparsityPlanter(options.sparsity, model, options.seed);
  std::optional<AttentionPlanter> attention;
  if (options.attention.is_planted()) attention.emplace(options.attention, model, options.seed);
  gguf::Writer writer(options.output);
  model::add_known_metadata(model, writer);
  writer.add_uint32("general.file_type", file_type.number);
  writer.add_uint32("general.quantization_version", 2);
  add_synth_tokenizer(model, writer);
  if (attention) attention->add_metadata(writer);
  Synthesizer synthesizer(options, model, attention ? &*attention : nullptr, writer);
  std::vector<tensor::Type> types;
  for (const KnownTensor& tensor : tensors) {
    types.push_back(choose_type(file_type, tensor.name, tensor.shape, facts));
    writer.add_tensor(tensor.name, types.back(), tensor.shape);
    synthesizer.add_total(tensor_bytes(tensor, types.back()));
  }
  writer.begin_data();
  for (size_t i = 0; i < tensors.size(); ++i) synthesizer.write(tensors[i], types[i]);
  writer.finish();
  SynthReport report = {model::n_parameters(model), tensors.size(), writer.bytes_written(), {}};
  if (attention) report.attention = attention->shares();
  return report;
}

}  // namespace troika::forge
