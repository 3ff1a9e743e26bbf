#include "model/unread_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>
#include <string>

#include "base/error.h"
#include "base/os_error.h"

namespace troika::model {
namespace {

// Lists what is beside the model of texts: what makes tokens of pictures and sounds, and heads that
// classify or embed a text that was read. Divisors of a rotation are read with the metadata, and
// of two kinds the architecture's counts.
constexpr std::string_view kBesideTexts[] = {"v.",
                                             "mm.",
                                             "a.",
                                             "cls.",
                                             "dense_2.",
                                             "dense_3.",
                                             "rope.freqs",
                                             "rope_freqs.",
                                             "rope_factors_long.",
                                             "rope_factors_short."};

// Lists parts of blocks without which a block computes the same: what rotates, which old files hold
// as a table, and predictors of neurons, with the places that PowerInfer gives neurons on a GPU.
constexpr std::string_view kIdleInBlocks[] = {"attn_rot_embd.", "fc1.", "fc2.", "gpu_idx",
                                              "gpu_bucket"};

bool begins_as(std::string_view name, std::span<const std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](std::string_view one) { return name.starts_with(one); });
}

// A tensor's block and its name in there; -1 and the whole name where it is in none.
struct PlaceInBlocks {
  int block = -1;
  std::string_view name;
};

PlaceInBlocks place_of(std::string_view name) {
  constexpr std::string_view kBegin = "blk.";
  if (!name.starts_with(kBegin)) return {-1, name};
  const char* const end = name.data() + name.size();
  int block = -1;
  const auto [behind, failure] = std::from_chars(name.data() + kBegin.size(), end, block);
  if (failure != std::errc() || block < 0 || behind == end || *behind != '.') return {-1, name};
  return {block, name.substr(static_cast<size_t>(behind + 1 - name.data()))};
}

// Blocks behind the last one that guess further tokens are told by what joins their two inputs.
bool guesses_tokens(const gguf::File& file, int block) {
  return file.find_tensor(fmt::format("blk.{}.nextn.eh_proj.weight", block)) != nullptr;
}

bool is_idle(const gguf::File& file, const Blueprint& b, std::string_view name) {
  // The scale of what goes into a product is for devices that make few bits of it.
  if (name.ends_with(".input_scale")) return true;
  const PlaceInBlocks place = place_of(name);
  if (place.block < 0) return begins_as(name, kBesideTexts);
  if (place.block >= b.n_layers) return guesses_tokens(file, place.block);
  return begins_as(place.name, kIdleInBlocks);
}

[[noreturn]] void refuse_tensor(const gguf::File& file, const Blueprint& b, std::string_view name,
                                bool is_factor) {
  if (is_factor) {
    throw Error(
        fmt::format("{}: the tensor {} is a factor of weights that this program does not know, and "
                    "they are wrong without it. Use a file of the model in another type, as Q8_0 "
                    "or Q4_K_M, which has no such factors.",
                    file.path(), troika::quoted(name)));
  }
  throw Error(
      fmt::format("{}: the tensor {} has no place in a model of the architecture {} with {} "
                  "blocks, as this program knows it, and the model would compute something else "
                  "without it. Convert the model again, or use another one.",
                  file.path(), troika::quoted(name), b.architecture, b.n_layers));
}

}  // namespace

void check_all_read(const gguf::File& file, const Blueprint& blueprint) {
  std::set<std::string_view> read;
  for (const Weight& weight : blueprint.weights) {
    if (file.find_tensor(weight.name) == nullptr) return;
    read.insert(weight.name);
  }
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    if (read.contains(tensor.name) || is_idle(file, blueprint, tensor.name)) continue;
    constexpr std::string_view kFactor = ".scale";
    const bool is_factor =
        tensor.name.ends_with(kFactor) &&
        read.contains(std::string(tensor.name.substr(0, tensor.name.size() - kFactor.size())) +
                      ".weight");
    refuse_tensor(file, blueprint, tensor.name, is_factor);
  }
}

}  // namespace troika::model
