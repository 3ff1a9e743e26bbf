#include "prepare/device_memory.h"

#include <gtest/gtest.h>

#include <tuple>

#include "forge/hollow.h"
#include "gguf/file.h"
#include "model/architecture.h"
#include "model/known.h"
#include "solve/lane_memory.h"

namespace troika::prepare {
namespace {

// What a lane is limited by, and what is taken for it before it is there, are one thing: beside
// copies of weights a device takes little.
TEST(DeviceMemory, N9_LimitsCountWhatTheLaneTakesForWeights) {
  const forge::HollowModel hollow(model::get_known("qwen2.5-0.5b"), "q4_0");
  const gguf::File file = hollow.open();
  const model::Blueprint blueprint = model::read(file);
  const weights::Store weights(file, blueprint);
  for (const auto& [kind, device, prefill] : {std::tuple("openvino", "CPU", plan::Prefill::kInt8),
                                              std::tuple("openvino", "CPU", plan::Prefill::kBf16),
                                              std::tuple("opencl", "0", plan::Prefill::kInt8),
                                              std::tuple("opencl", "0", plan::Prefill::kF32)}) {
    plan::Plan plan;
    plan.lanes.resize(2);
    plan.lanes[1].kind = kind;
    plan.lanes[1].device = device;
    plan.prefill = prefill;
    plan.prompt_shapes = {64, 256};
    for (const char* name : {"qkv", "ffn"}) {
      plan.placements.push_back({name, 0, 1, plan::Placement::kAllBlocks, plan::Phase::kPrompt});
    }
    const size_t held = solve::held_by_lanes(blueprint, weights, plan)[1];
    const size_t taken = device_bytes(blueprint, weights, plan, 1);
    EXPECT_LE(held, taken) << kind << ", " << plan::prefill_name(prefill);
    EXPECT_GT(held, taken * 9 / 10) << kind << ", " << plan::prefill_name(prefill);
  }
}

}  // namespace
}  // namespace troika::prepare
