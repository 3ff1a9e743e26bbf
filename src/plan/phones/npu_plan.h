// Says up to which stage of its ablation a virtual phone runs prompts as llm.npu does (N12).
#pragma once

#include <cstdint>

namespace troika::plan {

// Each stage has what the ones before it have.
enum class NpuStage : uint8_t { kNaive, kChunk, kOutlier, kOutOfOrder };
inline constexpr const char* kNpuStages[] = {"naive", "chunk", "outlier", "out-of-order"};

struct NpuPlan {
  NpuStage stage = NpuStage::kOutOfOrder;
  int prune = 85;  // the percentage of blocks without shadow tasks (N4, N6)

  bool operator==(const NpuPlan&) const = default;
};

}  // namespace troika::plan
