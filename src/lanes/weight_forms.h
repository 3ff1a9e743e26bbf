// Says in which forms lanes hold weights, before any lane is made: cores have the file's, devices
// copies of their own, which may be several of one weight.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/blueprint.h"
#include "plan/plan.h"
#include "weights/store.h"

namespace troika::lanes {

// In what an OpenCL lane multiplies executables of a phase (opencl/). Where neither holds, it
// refuses them.
struct OpenclForms {
  bool is_float = false;
  bool is_exact = false;  // whole numbers, with the bits of cores
};
OpenclForms opencl_forms(plan::Prefill prefill, plan::Activations activations, plan::Phase phase);

// Returns the bytes of a weight's number on a lane of OpenVINO, in our copy and in each graph
// (vendor/).
size_t openvino_bytes_each(plan::Prefill prefill);

// What decides the forms, beside the lane.
struct WeightUse {
  plan::Prefill prefill = plan::Prefill::kSame;
  plan::Activations activations = plan::Activations::kQ8;
  plan::Shape shape;  // of the executable
  int n_experts = 0;  // counts experts whose rows a weight of experts has
};

// A copy of a weight. A lane has each of its forms once, in however many executables.
struct WeightForm {
  enum class Kind : uint8_t { kFile, kFloatPanels, kExactPanels, kLevels, kGraph };
  Kind kind = Kind::kFile;
  int n_tokens = 0;  // those of a graph
  size_t bytes = 0;
};

// Returns the forms in which a lane holds the weight of an op that it runs. What a device refuses
// counts as on cores.
std::vector<WeightForm> weight_forms(const plan::PlannedLane& lane, const model::Op& op,
                                     const weights::Matrix& matrix, const WeightUse& use);

}  // namespace troika::lanes
