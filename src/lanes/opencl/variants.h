// Which of its kernels a lane takes: those that need an extension of the device, or others.
#pragma once

#include <string>

#include "lanes/opencl/driver/device.h"
#include "lanes/opencl/panels.h"
#include "plan/plan.h"

namespace troika::lanes::opencl {

// A tile of kernels/product.cl: how many tokens, and how many pieces of strips, a work item has.
struct Tile {
  enum Size : uint8_t { kMany, kSome, kOne };
  static constexpr size_t kSizes = 3;

  const char* kernel;
  size_t n_tokens, n_pieces;
};

// Which products of prompts were made of those that half floats are asked for. A lane may have none
// of them: others have them, or all must stay in floats.
struct HalvesOfPrompts {
  bool has_any = false;   // some product was made
  bool has_half = false;  // one of them in half floats

  void add(bool in_halves) {
    has_any = true;
    has_half = has_half || in_halves;
  }
};

class Variants {
 public:
  Variants(const DeviceEntry& entry, const DeviceOptions& options);

  // Returns how many rows of a strip a work item takes.
  size_t piece_rows() const;
  const Tile& tile(Tile::Size size) const;
  // Returns how many work items share the groups of a piece; with more than one, a group of work
  // items has kPiecesTogether pieces.
  size_t split(const PanelForm& form) const;
  static constexpr size_t kPiecesTogether = 8;

  // Says whether exact products read four levels as one number.
  bool has_quads() const { return dots_ != Extension::kMissing; }
  // Says whether products of floats may be of half floats.
  bool has_halves() const { return halves_ != Extension::kMissing; }
  // Returns the options with which kernels for a form are compiled; is_half: of half floats.
  std::string options(const PanelForm& form, bool is_half = false) const;
  // Says to people how prompts of a precision are multiplied: "in integer dot products". Empty
  // where there is one way only, and where half floats are asked for and none could be of them.
  std::string prompt_products(plan::Prefill prefill, const HalvesOfPrompts& made) const;
  // Returns what tells a lane apart from others of the same device that use other extensions: ",
  // without half floats". Empty where it uses those that the device has.
  std::string identity() const { return identity_; }

 private:
  enum class Extension : uint8_t { kMissing, kOfDevice, kEmulated };

  bool is_gpu_;
  bool shares_groups_;
  Extension dots_, halves_;
  std::string identity_;
};

// Says whether products of panels of this form may be of half floats. Levels are exact in these;
// weights that are floats might not be.
inline bool fits_halves(const PanelForm& form) { return form.has_scales; }

}  // namespace troika::lanes::opencl
