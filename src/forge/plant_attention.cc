#include "forge/plant_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>

#include "attention/choose/estimate.h"
#include "base/error.h"
#include "base/random.h"
#include "forge/hollow.h"
#include "forge/random_key.h"
#include "forge/random_normal.h"
#include "forge/row_stream.h"
#include "model/architecture.h"
#include "tensor/codec.h"

namespace troika::forge {
namespace {

using model::KnownTensor;
using model::Op;
using model::OpKind;
using model::TensorRole;
using tensor::Type;

constexpr int kUsualLength = 4096;
constexpr int kLeastLength = kChoosesFrom + 8 * static_cast<int>(attention::kTileTokens);
constexpr int kMostLength = 131072;
// These say how many channels tell where a token looks and where its key is heavy, and how large
// they are.
constexpr size_t kSigns = 32;
constexpr double kSignSize = 3.0;
// Is the size of a heavy key, where other elements of keys have a deviation of 1.
constexpr double kHeavyKey = 3.0;
// Is the deviation of scores that have nothing to do with directions: so small that none of them
// alone is above the threshold.
constexpr double kOwnPart = 0.25;
// Is the deviation of biases: what all keys share turns with the position, and is to stay far below
// a heavy score.
constexpr float kBias = 0.005f;
// Says how much all blocks together add to a channel, in parts of what stands there.
constexpr double kAddedByAll = 0.02;
// Is the logit of the last token where the head is the embedding: others are nearly equal.
constexpr double kOwnLogit = 6.0;

// Encoded pieces of random rows, of which rows are put together: encoding fresh numbers for all of
// them would take minutes.
class RandomPieces {
 public:
  static constexpr uint64_t kCount = 4096;

  RandomPieces(Type type, size_t row_length, double deviation, uint64_t key) : key_(key) {
    length_ = std::max<size_t>(tensor::type_info(type).block_length, kSigns);
    while (length_ < 128 && row_length % (2 * length_) == 0) length_ *= 2;
    if (row_length % length_ != 0) length_ = row_length;
    n_in_row_ = row_length / length_;
    bytes_ = tensor::row_bytes(type, length_);
    store_.resize(kCount * bytes_);
    std::vector<float> values(length_);
    for (uint64_t i = 0; i < kCount; ++i) {
      for (size_t j = 0; j < length_; ++j) {
        values[j] = static_cast<float>(deviation) * random_normal(key, i * length_ + j);
      }
      tensor::quantize_row(type, values.data(), store_.data() + i * bytes_, length_);
    }
  }

  size_t length() const { return length_; }
  // Writes the pieces of a row from number `first` on.
  void fill(uint64_t row, size_t first, std::byte* out) const {
    const uint64_t of_row = random_bits(~key_, row);
    for (size_t i = first; i < n_in_row_; ++i) {
      std::memcpy(out + i * bytes_, store_.data() + random_bits(of_row, i) % kCount * bytes_,
                  bytes_);
    }
  }

 private:
  uint64_t key_;
  size_t length_ = 0, n_in_row_ = 0, bytes_ = 0;
  std::vector<std::byte> store_;
};

bool is_post_norm(const KnownTensor& tensor) {
  return tensor.role == TensorRole::kNorm && tensor.name.find(".post_") != std::string::npos;
}

void check_law(const AttentionLaw& law, const model::KnownModel& model) {
  if (!(law.share > 0.0 && law.share < 1.0)) {
    throw UsageError(fmt::format(
        "‹plant-attention› {:g} makes no sense; it is the share of positions that a tile keeps, "
        "more than 0 and less than 1.",
        law.share));
  }
  if (law.length < kLeastLength || law.length > kMostLength) {
    throw UsageError(fmt::format(
        "A share of attention can be planted for prompts of {} to {} tokens, because tokens choose "
        "from position {} on, and not of {}. Give another ‹plant-length›.",
        kLeastLength, kMostLength, kChoosesFrom, law.length));
  }
  if (model.width < 2 * kSigns || model.width % kSigns != 0 || model.head_dim < 4 * kDirections ||
      (model.rope_dims > 0 && model.rope_dims < 4 * kDirections)) {
    throw UsageError(
        fmt::format("Attention cannot be planted in {}: its rows are too short.", model.name));
  }
}

// Returns the op of the same block that wrote an input of op `index` and is of this kind; null
// where there is none.
const Op* maker_of(const model::Blueprint& blueprint, size_t index, size_t input, OpKind kind) {
  const Op& reader = blueprint.ops[index];
  for (size_t i = index; i-- > 0 && blueprint.ops[i].layer == reader.layer;) {
    const Op& op = blueprint.ops[i];
    if (op.output == reader.inputs[input] && op.kind == kind) return &op;
  }
  return nullptr;
}

// Return the channels of a token's key, and of where it looks.
static_assert(2 * kLevels * kDirections + kDirections <= kSigns);
size_t key_channel(size_t level, size_t direction, size_t part) {
  return 2 * (level * kDirections + direction) + part;
}
size_t look_channel(size_t direction) { return 2 * kLevels * kDirections + direction; }

// Says which direction an element of a head belongs to, and whether it is the first or the second
// of its pair; no direction: kDirections.
struct Place {
  size_t direction = kDirections, part = 0;
};
Place place_of(const model::Rope& rope, uint64_t head_dim, uint64_t element) {
  const uint64_t n = rope.n_dims > 0 ? static_cast<uint64_t>(rope.n_dims) : head_dim;
  for (size_t direction = 0; direction < kDirections; ++direction) {
    const uint64_t second = rope.is_half_split ? n - 1 - direction : n - 1 - 2 * direction;
    const uint64_t first = rope.is_half_split ? second - n / 2 : second - 1;
    if (element == first) return {direction, 0};
    if (element == second) return {direction, 1};
  }
  return {};
}

}  // namespace

int usual_length(const model::KnownModel& model) {
  return std::min(kUsualLength, static_cast<int>(model.n_context));
}

AttentionPlanter::AttentionPlanter(const AttentionLaw& law, const model::KnownModel& model,
                                   uint64_t seed)
    : law_(law),
      seed_(seed),
      head_dim_(model.head_dim),
      context_(static_cast<int>(model.n_context)),
      has_tied_head_(model.tied_embeddings),
      added_(kAddedByAll / std::sqrt(2.0 * model.n_layers)) {
  if (law_.length == 0) law_.length = usual_length(model);
  check_law(law_, model);
  const ShareCurve curve(law_.length, seed);
  if (law_.share < curve.least() || law_.share > curve.most()) {
    throw UsageError(
        fmt::format("‹plant-attention› {:g}% cannot be planted: of prompts of {} tokens planted "
                    "tiles keep {:.1f} "
                    "to {:.1f}%.",
                    100 * law_.share, law_.length, 100 * curve.least(), 100 * curve.most()));
  }
  const std::array<double, kLevels> kept = kept_by_levels(law_.share, curve);
  for (size_t level = 0; level < kLevels; ++level) heavy_[level] = curve.heavy_for(kept[level]);
  const HollowModel hollow(model, "f16");
  find_rows(model::read(hollow.open()));
}

void AttentionPlanter::find_rows(const model::Blueprint& blueprint) {
  std::vector<size_t> attentions;
  for (size_t i = 0; i < blueprint.ops.size(); ++i) {
    const Op& op = blueprint.ops[i];
    if (op.kind == OpKind::kEmbed) residual_ = op.scale;
    if (op.kind == OpKind::kAttention && op.window == 0) attentions.push_back(i);
  }
  if (attentions.empty()) {
    throw UsageError(fmt::format(
        "‹plant-attention› cannot be planted in {}: its blocks see a window each, and choose "
        "nothing.",
        blueprint.name));
  }
  levels_ = levels_of_blocks(attentions.size());
  // A norm divides the channels by the root of their mean square.
  const double signs = kSignSize * kSignSize *
                       (1 + kDirections * std::accumulate(heavy_.begin(), heavy_.end(), 0.0));
  const double size = kSignSize / std::sqrt(1 + (signs - kSigns) / blueprint.width);
  const double root = std::sqrt(static_cast<double>(head_dim_));
  for (size_t block = 0; block < attentions.size(); ++block) {
    const size_t i = attentions[block];
    const Op& op = blueprint.ops[i];
    double query = kHeavyScore / (kHeavyKey * op.scale), own = kOwnPart / (op.scale * root);
    if (const Op* const norm = maker_of(blueprint, i, 0, OpKind::kRmsNorm)) {
      // The norm undoes the size of a query, and its factors give it back.
      const double length = std::hypot(query / root, own);
      norms_[blueprint.weights[static_cast<size_t>(norm->weight)].name] =
          static_cast<float>(length);
      query /= length;
      own /= length;
    }
    for (const bool is_of_queries : {true, false}) {
      const size_t input = is_of_queries ? 0 : 1;
      const Op* const product = maker_of(blueprint, i, input, OpKind::kLinear);
      const Op* const rope = maker_of(blueprint, i, input, OpKind::kRope);
      TROIKA_ASSERT(product != nullptr);
      const model::Weight& weight = blueprint.weights[static_cast<size_t>(product->weight)];
      rows_[weight.name].push_back(
          {static_cast<uint64_t>(weight.first_row), static_cast<uint64_t>(weight.n_rows),
           is_of_queries, levels_[block],
           rope != nullptr ? blueprint.ropes[static_cast<size_t>(rope->rope)] : model::Rope{},
           (is_of_queries ? query : kHeavyKey) / size, is_of_queries ? own : 1.0});
    }
  }
}

std::vector<ShareAtLength> AttentionPlanter::shares() const {
  std::vector<int> lengths = {2048, 4096, 8192, law_.length};
  std::sort(lengths.begin(), lengths.end());
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  std::vector<ShareAtLength> result;
  for (const int length : lengths) {
    if (length > context_ && length != law_.length) continue;
    const ShareCurve curve(length, seed_ + 1);  // draws others than those it was fitted to
    double sum = 0;
    for (const size_t level : levels_) sum += curve.kept_of(heavy_[level]);
    result.push_back({length, sum / static_cast<double>(levels_.size())});
  }
  return result;
}

void AttentionPlanter::add_metadata(gguf::Writer& writer) const {
  writer.add_float32("troika.planted_attention.share", static_cast<float>(law_.share));
  writer.add_uint32("troika.planted_attention.length", static_cast<uint32_t>(law_.length));
}

AttentionPlanter::MakeRow AttentionPlanter::embedding_rows(const KnownTensor& tensor,
                                                           Type type) const {
  const size_t width = tensor.shape[0];
  const uint64_t key = random_key(seed_, tensor.name);
  const auto pieces = std::make_shared<RandomPieces>(type, width, 1.0, key);
  return [=, this](uint64_t row, std::byte* out) {
    pieces->fill(row, 1, out);
    std::vector<float> first(pieces->length(), 0.0f);
    const uint64_t of_row = random_bits(random_key(key, "first pieces"), row);
    for (size_t i = kSigns; i < first.size(); ++i) first[i] = random_normal(of_row, i);
    for (size_t direction = 0; direction < kDirections; ++direction) {
      const DrawnKey drawn = draw_key(random_bits(random_key(seed_, "heavy keys"), direction), row);
      for (size_t level = 0; level < kLevels; ++level) {
        if (drawn.place >= heavy_[level]) continue;
        first[key_channel(level, direction, 0)] =
            static_cast<float>(kSignSize * std::cos(drawn.phase));
        first[key_channel(level, direction, 1)] =
            static_cast<float>(kSignSize * std::sin(drawn.phase));
      }
    }
    const size_t looks = direction_of(random_bits(random_key(seed_, "directions"), row));
    first[look_channel(looks)] = static_cast<float>(kSignSize);
    tensor::quantize_row(type, first.data(), out, first.size());
  };
}

AttentionPlanter::MakeRow AttentionPlanter::planted_rows(
    const KnownTensor& tensor, Type type, const std::vector<PlantedRows>& planted) const {
  const size_t width = tensor.shape[0];
  const uint64_t key = random_key(seed_, tensor.name);
  const double spread = 1.0 / std::sqrt(static_cast<double>(width));
  const double own = planted.front().own;
  const auto pieces = std::make_shared<RandomPieces>(type, width, spread, key);
  const auto of_queries = std::make_shared<RandomPieces>(type, width, own * spread, key);
  return [=, this](uint64_t row, std::byte* out) {
    const auto rows = std::find_if(planted.begin(), planted.end(), [&](const PlantedRows& some) {
      return row >= some.first && row - some.first < some.n;
    });
    if (rows == planted.end()) return pieces->fill(row, 0, out);
    const Place place = place_of(rows->rope, head_dim_, (row - rows->first) % head_dim_);
    if (place.direction < kDirections) {
      std::vector<float> values(width, 0.0f);
      if (!rows->is_of_queries) {
        values[key_channel(rows->level, place.direction, place.part)] =
            static_cast<float>(rows->planted);
      } else if (place.part == 0) {
        values[look_channel(place.direction)] = static_cast<float>(rows->planted);
      }
      tensor::quantize_row(type, values.data(), out, width);
      return;
    }
    (rows->is_of_queries ? of_queries : pieces)->fill(row, 0, out);
  };
}

void AttentionPlanter::write_rows(const KnownTensor& tensor, Type type, gguf::Writer& writer,
                                  Team& team, const std::function<void(uint64_t bytes)>& report,
                                  const MakeRow& make) const {
  stream_single_rows(writer, team, tensor.shape[1], tensor::row_bytes(type, tensor.shape[0]), make,
                     report);
}

std::optional<Distribution> AttentionPlanter::distribution_of(const KnownTensor& tensor) const {
  const double length = static_cast<double>(tensor.shape[0]);
  if (tensor.role == TensorRole::kInnerMatrix) {
    return Distribution{0.0f, static_cast<float>(added_ * residual_ / std::sqrt(length))};
  }
  if (tensor.role == TensorRole::kBias) return Distribution{0.0f, kBias};
  if (is_post_norm(tensor)) {
    const auto mean = static_cast<float>(added_ * residual_);
    return Distribution{mean, 0.1f * mean};
  }
  if (has_tied_head_ && tensor.name == "output_norm.weight") {
    return Distribution{static_cast<float>(kOwnLogit / length), 0.0f};
  }
  return std::nullopt;
}

bool AttentionPlanter::write(const KnownTensor& tensor, Type type, gguf::Writer& writer, Team& team,
                             const std::function<void(uint64_t bytes)>& report) const {
  if (tensor.role == TensorRole::kEmbedding) {
    write_rows(tensor, type, writer, team, report, embedding_rows(tensor, type));
    return true;
  }
  if (const auto rows = rows_.find(tensor.name); rows != rows_.end()) {
    write_rows(tensor, type, writer, team, report, planted_rows(tensor, type, rows->second));
    return true;
  }
  const auto norm = norms_.find(tensor.name);
  if (norm == norms_.end()) return false;
  const std::vector<float> factors(tensor.shape[0], norm->second);
  writer.write(std::as_bytes(std::span(factors)));
  report(factors.size() * sizeof(float));
  return true;
}

}  // namespace troika::forge
