#include "lanes/weight_forms.h"

#include "lanes/opencl/panels.h"

namespace troika::lanes {

using model::OpKind;

OpenclForms opencl_forms(plan::Prefill prefill, plan::Activations activations, plan::Phase phase) {
  if (phase != plan::Phase::kPrompt || prefill == plan::Prefill::kSame) {
    return {.is_float = activations == plan::Activations::kF32};
  }
  return {.is_float = prefill == plan::Prefill::kF16 || prefill == plan::Prefill::kF32,
          .is_exact = prefill == plan::Prefill::kInt8};
}

size_t openvino_bytes_each(plan::Prefill prefill) {
  return prefill == plan::Prefill::kBf16 ? sizeof(uint16_t) : sizeof(int8_t);
}

std::vector<WeightForm> weight_forms(const plan::PlannedLane& lane, const model::Op& op,
                                     const weights::Matrix& matrix, const WeightUse& use) {
  using Kind = WeightForm::Kind;
  auto n_rows = static_cast<size_t>(matrix.n_rows);
  const auto k = static_cast<size_t>(matrix.row_length);
  const bool is_product = op.kind == OpKind::kLinear;
  if (lane.kind == "openvino" && is_product && use.shape.phase == plan::Phase::kPrompt) {
    const size_t bytes = n_rows * k * openvino_bytes_each(use.prefill);
    const size_t scales = use.prefill == plan::Prefill::kBf16 ? 0 : n_rows * sizeof(float);
    return {{Kind::kLevels, 0, bytes + scales}, {Kind::kGraph, use.shape.n_rows, bytes}};
  }
  if (lane.kind == "opencl") {
    const OpenclForms forms = opencl_forms(use.prefill, use.activations, use.shape.phase);
    const bool is_exact = forms.is_exact && is_product && !op.keeps_float;
    if (op.kind == OpKind::kExpertLinear) {
      const auto n_experts = static_cast<size_t>(use.n_experts);
      n_rows = opencl::rows_of_experts(n_rows / n_experts, n_experts);
    }
    if (is_exact || forms.is_float) {
      return {{is_exact ? Kind::kExactPanels : Kind::kFloatPanels, 0,
               opencl::panel_bytes(matrix.type, is_exact, n_rows, k)}};
    }
  }
  // Cores look up a few rows of the table of embeddings.
  if (op.kind == OpKind::kEmbed) return {};
  return {{Kind::kFile, 0, matrix.bytes()}};
}

}  // namespace troika::lanes
