#include "forge/plant_outliers.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/os_error.h"
#include "base/random.h"
#include "base/threads/team.h"
#include "forge/copy_file.h"
#include "forge/file_type.h"
#include "forge/plant_sites.h"
#include "forge/random_key.h"
#include "forge/row_stream.h"
#include "gguf/file.h"
#include "gguf/writer.h"
#include "model/architecture.h"
#include "tensor/codec.h"
#include "tensor/half.h"
#include "weights/store.h"

namespace troika::forge {
namespace {

using gguf::TensorInfo;

constexpr int kMostScale = 65536;
constexpr int kMostHeadScale = 256;
// Is the prefix of metadata that says what was planted.
constexpr std::string_view kKeyPrefix = "troika.planted_outliers.";

// The powers of two by which the elements of one tensor are multiplied.
struct Scaling {
  struct Columns {
    int first_row;
    int n_rows;
    std::vector<std::pair<int, int>> exponents;  // (column, exponent)
  };
  std::map<int, int> rows;  // row -> exponent
  std::vector<Columns> columns;
};

using Scalings = std::map<std::string, Scaling, std::less<>>;

void check_options(const PlantOptions& options) {
  for (const double share : {options.channels, options.hidden_channels}) {
    if (share > 0.0 && share <= 0.5) continue;
    throw UsageError(fmt::format(
        "The share of channels is {:g}%, but must be above 0 and at most 50%, for example 0.3%.",
        100 * share));
  }
  const auto check_scale = [](const char* name, int scale, int most) {
    if (scale >= 1 && scale <= most && std::has_single_bit(static_cast<unsigned>(scale))) return;
    throw UsageError(
        fmt::format("The {} is {}, but must be a power of two from 2 to {}, or 1 for none: other "
                    "factors would round the weights.",
                    name, scale, most));
  };
  check_scale("scale", options.scale, kMostScale);
  check_scale("scale of heads", options.head_scale, kMostHeadScale);
  if (options.scale == 1 && options.head_scale == 1) {
    throw UsageError("With a scale of 1 for channels and for heads nothing is planted.");
  }
  if (options.type != "f16" && options.type != "f32") {
    throw UsageError(fmt::format(
        "The type is '{}', but a planted model is f32 or f16, because blocks would round what was "
        "scaled down. Quantise the result if you want that.",
        options.type));
  }
}

std::vector<float> decode_row(const gguf::File& file, const TensorInfo& tensor, uint64_t row) {
  std::vector<float> values(tensor.row_length());
  const size_t row_bytes = tensor::row_bytes(tensor.type, tensor.row_length());
  tensor::dequantize_row(tensor.type, file.data(tensor).data() + row * row_bytes, values.data(),
                         values.size());
  return values;
}

// Returns how large each channel is made: its factor in the norm, or the squared length of its row.
std::vector<double> made_by(const gguf::File& file, const ChannelMaker& maker, size_t n_channels) {
  const TensorInfo& tensor = file.get_tensor(maker.tensor);
  std::vector<double> all(n_channels);
  if (maker.is_vector) {
    const std::vector<float> values = decode_row(file, tensor, 0);
    for (size_t c = 0; c < all.size(); ++c) {
      all[c] = std::abs(values[static_cast<size_t>(maker.first) + c]);
    }
    return all;
  }
  for (size_t c = 0; c < all.size(); ++c) {
    const std::vector<float> row = decode_row(file, tensor, static_cast<uint64_t>(maker.first) + c);
    all[c] = std::inner_product(row.begin(), row.end(), row.begin(), 0.0);
  }
  return all;
}

std::vector<double> strengths(const gguf::File& file, const PlantSite& site,
                              const PlantOptions& options) {
  const auto n_channels = static_cast<size_t>(site.n_channels);
  const auto use = options.uses.find(site.readers.front().tensor);
  if (site.is_hidden && use != options.uses.end() && use->second.size() == n_channels) {
    return use->second;
  }
  std::vector<double> all = made_by(file, site.makers.front(), n_channels);
  if (!site.gate) return all;
  const std::vector<double> gates = made_by(file, *site.gate, n_channels);
  for (size_t c = 0; c < n_channels; ++c) all[c] *= gates[c];
  return all;
}

// Chooses channels of the stronger half at random, and lists the strongest first: a channel that is
// always near zero would be no outlier after the scaling, either. Of hidden channels it chooses the
// strongest.
std::vector<int> choose_channels(const std::vector<double>& strengths, double share, uint64_t key,
                                 bool is_hidden) {
  const auto n =
      static_cast<size_t>(std::max(1.0, std::round(share * static_cast<double>(strengths.size()))));
  std::vector<int> order(strengths.size());
  std::iota(order.begin(), order.end(), 0);
  // What is no number is refused later; until then it must have a place in the order.
  const auto strength = [&](int channel) {
    const double value = strengths[static_cast<size_t>(channel)];
    return std::isnan(value) ? 0.0 : value;
  };
  const auto stronger = [&](int a, int b) {
    const double x = strength(a), y = strength(b);
    return x != y ? x > y : a < b;
  };
  std::sort(order.begin(), order.end(), stronger);
  order.resize(is_hidden ? n : std::max(n, (order.size() + 1) / 2));
  for (size_t i = 0; i < n; ++i) {
    std::swap(order[i], order[i + random_bits(key, i) % (order.size() - i)]);
  }
  order.resize(n);
  std::sort(order.begin(), order.end(), stronger);
  return order;
}

// Returns the exponent for a layer: the whole scale at both ends of the model, its square root in
// the middle.
int layer_exponent(int scale, int layer, int n_layers) {
  const int most = std::countr_zero(static_cast<unsigned>(scale));
  if (layer == model::kNone || n_layers < 2) return most;
  const double from_middle = std::abs(2.0 * layer / (n_layers - 1) - 1.0);  // from 0 to 1
  return std::max(1, static_cast<int>(std::lround(most * (0.5 + 0.5 * from_middle))));
}

// Returns the exponent for a channel by its rank: the strongest gets all, the next two half, the
// next four a quarter, and so on, but never less than 2.
int rank_exponent(int exponent, size_t rank) {
  return std::max(1, exponent - static_cast<int>(std::bit_width(rank + 1)) + 1);
}

// Returns by which power of two a hidden channel is scaled, where `most` is the one that was asked
// for: two less for the strongest quarter of the chosen channels, three less for the others. This
// lifts them above the tail of all other channels, because they are the largest already. More would
// cost precision: what multiplies the channel is scaled down, and 8-bit weights round it.
int hidden_exponent(int most, size_t rank, size_t n) {
  return std::max(1, most - (rank * 4 < n ? 2 : 3));
}

void add_to_scalings(const PlantSite& site, const PlantedSite& planted, Scalings& scalings) {
  std::vector<std::pair<int, int>> down;
  for (const auto& [channel, scale] : planted.planted) {
    const int exponent = std::countr_zero(static_cast<unsigned>(scale));
    for (const int column : site.columns(channel)) down.emplace_back(column, -exponent);
    for (const ChannelMaker& maker : site.makers) {
      Scaling& scaling = scalings[maker.tensor];
      const int index = maker.first + channel;
      if (maker.is_vector) {
        scaling.columns.push_back({0, 1, {{index, exponent}}});
      } else {
        scaling.rows[index] += exponent;
      }
    }
  }
  for (const ChannelRows& reader : site.readers) {
    scalings[reader.tensor].columns.push_back({reader.first_row, reader.n_rows, down});
  }
}

void scale_rows(const std::vector<ChannelMaker>& makers, int first, int n, int exponent,
                Scalings& scalings) {
  for (const ChannelMaker& maker : makers) {
    Scaling& scaling = scalings[maker.tensor];
    Scaling::Columns of_vector = {0, 1, {}};
    for (int row = maker.first + first; row < maker.first + first + n; ++row) {
      if (maker.is_vector) {
        of_vector.exponents.emplace_back(row, exponent);
      } else {
        scaling.rows[row] += exponent;
      }
    }
    if (maker.is_vector) scaling.columns.push_back(std::move(of_vector));
  }
}

// Scales queries up and keys down, or the other way round.
void add_head_scales(const model::Blueprint& blueprint, const PlantOptions& options,
                     PlantReport& report, Scalings& scalings) {
  const std::vector<ScoreSite> sites = find_score_sites(blueprint);
  if (sites.empty()) {
    throw UsageError(
        "Scales of heads cannot be planted in this model: a norm behind its queries and keys takes "
        "them away.");
  }
  const int most = std::countr_zero(static_cast<unsigned>(options.head_scale));
  for (const ScoreSite& site : sites) {
    const uint64_t key = random_key(options.seed, fmt::format("head scales {}", site.layer));
    for (int head = 0; head < site.n_kv_heads; ++head) {
      const uint64_t drawn = random_bits(key, static_cast<uint64_t>(head));
      const int exponent = static_cast<int>(drawn % (2 * static_cast<uint64_t>(most) + 1)) - most;
      scale_rows(site.queries, site.first_query_row(head), site.n_query_rows(), exponent, scalings);
      scale_rows(site.keys, site.first_key_row(head), site.head_dim, -exponent, scalings);
      report.n_scaled_heads += exponent != 0 ? 1 : 0;
    }
  }
}

Scalings plan_scalings(const gguf::File& file, const PlantOptions& options, PlantReport& report) {
  const model::Blueprint blueprint = model::read(file);
  // Checks that every tensor is there and has its shape.
  const weights::Store checked(file, blueprint);
  Scalings scalings;
  if (options.head_scale > 1) add_head_scales(blueprint, options, report, scalings);
  if (options.scale == 1) return scalings;
  for (const PlantSite& site : find_plant_sites(blueprint)) {
    PlantedSite planted{site.name, site.layer, site.n_channels, {}};
    const int exponent = layer_exponent(options.scale, site.layer, blueprint.n_layers);
    const int most = std::countr_zero(static_cast<unsigned>(options.scale));
    const double share = site.is_hidden ? options.hidden_channels : options.channels;
    const std::vector<int> channels = choose_channels(
        strengths(file, site, options), share, random_key(options.seed, site.name), site.is_hidden);
    for (size_t rank = 0; rank < channels.size(); ++rank) {
      const int of_rank = site.is_hidden ? hidden_exponent(most, rank, channels.size())
                                         : rank_exponent(exponent, rank);
      planted.planted.push_back({channels[rank], 1 << of_rank});
    }
    add_to_scalings(site, planted, scalings);
    report.sites.push_back(std::move(planted));
  }
  return scalings;
}

// What was noticed while a part of a tensor was scaled.
struct Findings {
  bool is_finite = true;
  bool overflows = false;
  bool fits_f16 = true;
  uint64_t n_rounded = 0;
};

void scale_value(float& value, int exponent, Findings& findings) {
  const float scaled = std::ldexp(value, exponent);
  findings.overflows |= std::isinf(scaled) && std::isfinite(value);
  findings.n_rounded += std::isfinite(scaled) && std::ldexp(scaled, -exponent) != value;
  value = scaled;
}

class Planter {
 public:
  Planter(const PlantOptions& options, const gguf::File& file, Scalings scalings)
      : options_(options),
        file_(file),
        scalings_(std::move(scalings)),
        team_(std::max(options.n_threads, 1)),
        findings_(static_cast<size_t>(team_.size())),
        rows_(static_cast<size_t>(team_.size())) {
    for (const TensorInfo& tensor : file.tensors()) total_bytes_ += 2 * tensor.bytes;
  }

  // Goes through all values of a tensor without writing, and chooses its type. Throws where the
  // scaling is not possible.
  tensor::Type choose_type(const TensorInfo& tensor, PlantReport& report) {
    for (Findings& findings : findings_) findings = {};
    const auto n_rows = static_cast<int64_t>(tensor.n_rows());
    team_.run([&](int worker) {
      const Share share = share_of(n_rows, worker, team_.size());
      std::vector<float>& row = rows_[static_cast<size_t>(worker)];
      Findings& findings = findings_[static_cast<size_t>(worker)];
      for (int64_t r = share.begin; r < share.end; ++r) {
        read_scaled(tensor, static_cast<uint64_t>(r), row, findings);
        for (const float value : row) {
          findings.is_finite &= std::isfinite(value);
          findings.fits_f16 &= tensor::f16_to_f32(tensor::f32_to_f16(value)) == value;
        }
      }
    });
    file_.check_intact();
    const Findings found = summary();
    check(tensor, found);
    report.n_rounded += found.n_rounded;
    add_progress(tensor.bytes);
    if (tensor.shape.size() < 2) return tensor::Type::kF32;
    const bool is_f16 = options_.type == "f16" && found.fits_f16;
    ++(is_f16 ? report.n_f16 : report.n_f32);
    if (options_.type == "f16" && !is_f16) ++report.n_inexact_in_f16;
    return is_f16 ? tensor::Type::kF16 : tensor::Type::kF32;
  }

  void write(const TensorInfo& tensor, tensor::Type type, gguf::Writer& writer) {
    const size_t row_bytes = tensor::row_bytes(type, tensor.row_length());
    const size_t in_row_bytes = tensor::row_bytes(tensor.type, tensor.row_length());
    stream_rows(
        writer, team_, tensor.n_rows(), row_bytes,
        [&](int worker, uint64_t first, uint64_t n_rows, std::byte* out) {
          std::vector<float>& row = rows_[static_cast<size_t>(worker)];
          for (uint64_t i = 0; i < n_rows; ++i) {
            read_scaled(tensor, first + i, row, findings_[static_cast<size_t>(worker)]);
            tensor::quantize_row(type, row.data(), out + i * row_bytes, row.size());
          }
        },
        [&](uint64_t n_rows) { add_progress(n_rows * in_row_bytes); });
    file_.check_intact();
  }

 private:
  void read_scaled(const TensorInfo& tensor, uint64_t index, std::vector<float>& row,
                   Findings& findings) const {
    const size_t row_bytes = tensor::row_bytes(tensor.type, tensor.row_length());
    row.resize(tensor.row_length());
    tensor::dequantize_row(tensor.type, file_.data(tensor).data() + index * row_bytes, row.data(),
                           row.size());
    const auto found = scalings_.find(tensor.name);
    if (found == scalings_.end()) return;
    const Scaling& scaling = found->second;
    const auto r = static_cast<int>(index);
    const auto of_row = scaling.rows.find(r);
    if (of_row != scaling.rows.end()) {
      for (float& value : row) scale_value(value, of_row->second, findings);
    }
    for (const Scaling::Columns& columns : scaling.columns) {
      if (r < columns.first_row || r >= columns.first_row + columns.n_rows) continue;
      for (const auto& [column, exponent] : columns.exponents) {
        scale_value(row[static_cast<size_t>(column)], exponent, findings);
      }
    }
  }

  Findings summary() const {
    Findings all;
    for (const Findings& one : findings_) {
      all.is_finite &= one.is_finite;
      all.overflows |= one.overflows;
      all.fits_f16 &= one.fits_f16;
      all.n_rounded += one.n_rounded;
    }
    return all;
  }

  void check(const TensorInfo& tensor, const Findings& found) const {
    if (found.overflows) {
      throw Error(fmt::format(
          "{}: values of the tensor {} become larger than F32 holds. Choose a smaller scale than "
          "{}.",
          file_.path(), quoted(tensor.name), options_.scale));
    }
    if (!found.is_finite) {
      throw Error(
          fmt::format("{}: tensor {} holds values that are not finite numbers; such a model "
                      "cannot be scaled. Download or convert it again.",
                      file_.path(), quoted(tensor.name)));
    }
  }

  void add_progress(uint64_t bytes) {
    done_bytes_ += bytes;
    if (options_.progress) options_.progress(done_bytes_, total_bytes_);
  }

  const PlantOptions& options_;
  const gguf::File& file_;
  const Scalings scalings_;
  Team team_;
  std::vector<Findings> findings_;        // one for each worker
  std::vector<std::vector<float>> rows_;  // one for each worker
  uint64_t total_bytes_ = 0;              // counts each tensor twice, because it is read twice
  uint64_t done_bytes_ = 0;
};

}  // namespace

PlantReport plant_outliers(const PlantOptions& options) {
  check_options(options);
  const gguf::File file = gguf::File::open(options.input);
  for (const auto& shard : file.shards()) refuse_to_replace(shard.path, options.output);
  PlantReport report;
  report.input_bytes = file.file_bytes();
  // Checks that all types are supported.
  for (const TensorInfo& tensor : file.tensors()) (void)file.data(tensor);
  Planter planter(options, file, plan_scalings(file, options, report));
  std::vector<tensor::Type> types;
  for (const TensorInfo& tensor : file.tensors()) {
    types.push_back(planter.choose_type(tensor, report));
  }

  gguf::Writer writer(options.output, alignment_of_copy(file));
  const char* most = report.n_f16 > report.n_f32 ? "f16" : "f32";
  copy_metadata(file, get_file_type(most).number, writer, kKeyPrefix);
  const std::string prefix(kKeyPrefix);
  writer.add_uint32(prefix + "scale", static_cast<uint32_t>(options.scale));
  writer.add_float32(prefix + "channels", static_cast<float>(options.channels));
  if (options.head_scale > 1) {
    writer.add_uint32(prefix + "head_scale", static_cast<uint32_t>(options.head_scale));
  }
  writer.add_uint64(prefix + "seed", options.seed);
  for (size_t i = 0; i < types.size(); ++i) {
    writer.add_tensor(file.tensors()[i].name, types[i], file.tensors()[i].shape);
  }
  writer.begin_data();
  for (size_t i = 0; i < types.size(); ++i) planter.write(file.tensors()[i], types[i], writer);
  writer.finish();
  report.output_bytes = writer.bytes_written();
  return report;
}

}  // namespace troika::forge
