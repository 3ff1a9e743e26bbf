#include "weights/neurons/predictor.h"

#include <fmt/format.h>

#include <cstring>
#include <new>

#include "base/atomic_file.h"
#include "base/cache_folder.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/side_file.h"
#include "weights/neurons/bundle_file.h"

namespace troika::weights {
namespace {

constexpr char kPredictorMagic[16] = "troika-predict";
constexpr uint64_t kPredictorVersion = 2;
constexpr uint64_t kMostOfShape = uint64_t{1} << 20;  // no number of the shape may be larger

// All words have the little end first, as the machines that this runs on do.
struct PredictorHeader {
  char magic[16];
  uint64_t version;
  uint64_t model_key;
  uint64_t n_layers;
  uint64_t n_neurons;
  uint64_t width;
  uint64_t rank;
  uint64_t type;
  double recall;
  double predicted_per_live;
  uint64_t key;   // the key of what follows
  uint64_t hash;  // hashes everything before it
};

uint64_t predictor_header_hash(const PredictorHeader& header) {
  return hash_of(std::as_bytes(std::span(&header, 1)).first(offsetof(PredictorHeader, hash)));
}

// Says where a predictor lies, and what somebody does who wants none.
struct PredictorSource {
  const std::string& path;
  std::string_view way_out;
};

[[noreturn]] void refuse_predictor(const PredictorSource& source, std::string_view why) {
  throw Error(fmt::format("{} {}. Make it again with 'troika neurons --predictor RANK', or {}.",
                          source.path, why, source.way_out));
}

// Opens the file, reads its beginning and checks it.
PredictorHeader read_predictor_header(const PredictorSource& source, uint64_t model_key,
                                      SideFile* file, PredictorShape* shape) {
  PredictorHeader header;
  std::string problem;
  *file = SideFile(source.path, &problem);
  if (!problem.empty()) refuse_predictor(source, problem);
  if (!file->is_open()) {
    throw Error(
        fmt::format("There is no predictor of this model's neurons ({}). Make one with 'troika "
                    "neurons --predictor RANK', or {}.",
                    source.path, source.way_out));
  }
  if (!file->read(0, std::as_writable_bytes(std::span(&header, 1))))
    refuse_predictor(source, "is too short");
  if (std::memcmp(header.magic, kPredictorMagic, sizeof(kPredictorMagic)) != 0)
    refuse_predictor(source, "is no predictor");
  if (header.version != kPredictorVersion)
    refuse_predictor(source, "was made by another version of this program");
  if (header.hash != predictor_header_hash(header)) refuse_predictor(source, "is damaged");
  if (header.model_key != model_key)
    refuse_predictor(source, "was made for another content of the model, or with other thresholds");
  *shape = {header.n_layers, header.n_neurons, header.width, header.rank, tensor::Type::kQ8_0};
  const bool is_known = header.type == static_cast<uint64_t>(tensor::Type::kQ8_0) ||
                        header.type == static_cast<uint64_t>(tensor::Type::kQ4_0);
  shape->type = static_cast<tensor::Type>(header.type);
  for (const uint64_t n : {header.n_layers, header.n_neurons, header.width, header.rank}) {
    if (n == 0 || n > kMostOfShape || !is_known) refuse_predictor(source, "is damaged");
  }
  const bool has_shares = header.recall > 0.0 && header.recall <= 1.0 &&
                          header.predicted_per_live >= 0.0 &&
                          header.predicted_per_live <= static_cast<double>(kMostOfShape);
  if (!has_shares) refuse_predictor(source, "is damaged");
  const size_t block = tensor::type_info(shape->type).block_length;
  if (shape->width % block != 0 || shape->rank % block != 0) refuse_predictor(source, "is damaged");
  if (file->bytes() != sizeof(header) + shape->n_layers * shape->layer_bytes())
    refuse_predictor(source, "has not the length that it says");
  return header;
}

}  // namespace

size_t PredictorShape::in_row_bytes() const { return tensor::row_bytes(type, width); }
size_t PredictorShape::out_row_bytes() const { return tensor::row_bytes(type, rank); }
size_t PredictorShape::layer_bytes() const {
  const size_t bytes = rank * in_row_bytes() + n_neurons * (out_row_bytes() + sizeof(float));
  return (bytes + 63) / 64 * 64;
}

NeuronPredictor::NeuronPredictor(const PredictorShape& shape, double recall)
    : shape_(shape), recall_(recall), memory_(shape.n_layers * shape.layer_bytes()) {}

NeuronPredictor::Layer NeuronPredictor::layer(uint64_t i) const {
  std::byte* const begin = memory_.get() + i * shape_.layer_bytes();
  const size_t threshold_bytes = shape_.n_neurons * sizeof(float);
  // Thresholds come first, because they need alignment.
  std::byte* const in = begin + threshold_bytes;
  return {in, in + shape_.rank * shape_.in_row_bytes(), reinterpret_cast<float*>(begin)};
}

uint64_t NeuronPredictor::key() const {
  Fnv hash;
  for (const uint64_t n : {shape_.n_layers, shape_.n_neurons, shape_.width, shape_.rank,
                           static_cast<uint64_t>(shape_.type)}) {
    hash.add(n);
  }
  for (uint64_t i = 0; i < shape_.n_layers; ++i) {
    const std::byte* const begin = memory_.get() + i * shape_.layer_bytes();
    hash.add(uint64_t{bundle_check({begin, shape_.layer_bytes()})});
  }
  return hash.value();
}

void NeuronPredictor::write(const std::string& path, uint64_t model_key) const {
  PredictorHeader header = {{},
                            kPredictorVersion,
                            model_key,
                            shape_.n_layers,
                            shape_.n_neurons,
                            shape_.width,
                            shape_.rank,
                            static_cast<uint64_t>(shape_.type),
                            recall_,
                            predicted_per_live_,
                            key(),
                            0};
  std::memcpy(header.magic, kPredictorMagic, sizeof(kPredictorMagic));
  header.hash = predictor_header_hash(header);
  make_place_for(path);
  AtomicFile file(path);
  file.write(std::as_bytes(std::span(&header, 1)));
  for (uint64_t i = 0; i < shape_.n_layers; ++i) {
    file.write({memory_.get() + i * shape_.layer_bytes(), shape_.layer_bytes()});
  }
  file.commit();
}

NeuronPredictor::Info NeuronPredictor::info(const std::string& path, uint64_t model_key,
                                            std::string_view way_out) {
  SideFile file;
  Info info;
  const PredictorHeader header =
      read_predictor_header({path, way_out}, model_key, &file, &info.shape);
  info.key = header.key;
  info.recall = header.recall;
  info.predicted_per_live = header.predicted_per_live;
  return info;
}

std::unique_ptr<NeuronPredictor> NeuronPredictor::read(const std::string& path, uint64_t model_key,
                                                       std::string_view way_out) {
  SideFile file;
  PredictorShape shape;
  const PredictorSource source = {path, way_out};
  const PredictorHeader header = read_predictor_header(source, model_key, &file, &shape);
  std::unique_ptr<NeuronPredictor> predictor;
  try {
    predictor = std::make_unique<NeuronPredictor>(shape, header.recall);
  } catch (const std::bad_alloc&) {
    throw Error(fmt::format(
        "There is no memory for a predictor of {:.1f} MB ({}). End other programs, or "
        "{}.",
        1e-6 * static_cast<double>(shape.n_layers * shape.layer_bytes()), path, way_out));
  }
  if (!file.read(sizeof(header), {predictor->memory_.get(), shape.n_layers * shape.layer_bytes()}))
    refuse_predictor(source, "is too short");
  if (predictor->key() != header.key) refuse_predictor(source, "is damaged");
  predictor->set_predicted_per_live(header.predicted_per_live);
  return predictor;
}

}  // namespace troika::weights
