#include "lanes/opencl/variants.h"

#include <fmt/format.h>

#include <algorithm>

namespace troika::lanes::opencl {
namespace {

// The extension's functions are there in the version of the language that it was written for.
constexpr const char* kDeviceDots = "-cl-std=CL3.0 -DDOT=dot_4x8packed_ss_int ";
constexpr const char* kEmulatedDots = "-DDOT=dot_of_bytes ";
constexpr const char* kDeviceHalves = "-DHALF=1 ";
constexpr const char* kEmulatedHalves = "-DHALF=2 ";

// Cores have vectors of 16 floats. Work items of a GPU have few registers each, and there should be
// many of them.
constexpr size_t kRowsOfCores = kStripRows, kRowsOfGpu = 4, kSplitOfGpu = 8;
constexpr Tile kTilesOfCores[] = {{"product_8", 8, 2}, {"product_4", 4, 4}, {"product_1", 1, 4}};
constexpr Tile kTilesOfGpu[] = {{"product_8", 8, 1}, {"product_4", 4, 1}, {"product_1", 1, 1}};

}  // namespace

Variants::Variants(const DeviceEntry& entry, const DeviceOptions& options)
    : is_gpu_(!entry.is_cpu || options.is_like_gpu),
      shares_groups_(is_gpu_ && entry.most_group_items >= kPiecesTogether * kSplitOfGpu &&
                     entry.most_group_side >= std::max(kPiecesTogether, kSplitOfGpu)) {
  const auto choose = [&](bool is_there, const char* name) {
    if (is_there && options.extensions != Extensions::kNone) return Extension::kOfDevice;
    const bool is_emulated = options.extensions == Extensions::kEmulated;
    if (is_there || is_emulated) {
      identity_ += fmt::format(", {} {}", is_emulated ? "with emulated" : "without", name);
    }
    return is_emulated ? Extension::kEmulated : Extension::kMissing;
  };
  dots_ = choose(entry.has_dots, "integer dot products");
  halves_ = choose(entry.has_halves, "half floats");
}

size_t Variants::piece_rows() const { return is_gpu_ ? kRowsOfGpu : kRowsOfCores; }

const Tile& Variants::tile(Tile::Size size) const {
  return is_gpu_ ? kTilesOfGpu[size] : kTilesOfCores[size];
}

// Exact products have few groups, and any order of their sums gives the same bits. They serve
// prompts, in which there is work enough for everyone.
size_t Variants::split(const PanelForm& form) const {
  return shares_groups_ && !form.is_exact ? kSplitOfGpu : 1;
}

std::string Variants::options(const PanelForm& form, bool is_half) const {
  const std::string options =
      fmt::format("{} -DROWS={} -DSPLIT={} -DPIECES_TOGETHER={}", form.options(), piece_rows(),
                  split(form), kPiecesTogether);
  if (is_half) {
    return (halves_ == Extension::kEmulated ? kEmulatedHalves : kDeviceHalves) + options;
  }
  if (form.levels != PanelForm::Levels::kQuads) return options;
  return (dots_ == Extension::kEmulated ? kEmulatedDots : kDeviceDots) + options;
}

std::string Variants::prompt_products(plan::Prefill prefill, const HalvesOfPrompts& made) const {
  if (prefill == plan::Prefill::kF16) {
    if (!made.has_any) return "";
    if (!made.has_half) return "in floats, as no weight has levels that halves hold";
    return halves_ == Extension::kEmulated ? "in emulated half floats" : "in half floats";
  }
  if (prefill != plan::Prefill::kInt8) return "";
  if (dots_ == Extension::kMissing) return "in floats that hold whole numbers";
  return dots_ == Extension::kEmulated ? "in emulated integer dot products"
                                       : "in integer dot products";
}

}  // namespace troika::lanes::opencl
