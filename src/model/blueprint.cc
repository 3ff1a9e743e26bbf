#include "model/blueprint.h"

namespace troika::model {

const char* op_kind_name(OpKind kind) {
  switch (kind) {
    case OpKind::kEmbed:
      return "embed";
    case OpKind::kRmsNorm:
      return "rms_norm";
    case OpKind::kLayerNorm:
      return "layer_norm";
    case OpKind::kLinear:
      return "linear";
    case OpKind::kRope:
      return "rope";
    case OpKind::kAttention:
      return "attention";
    case OpKind::kGate:
      return "gate";
    case OpKind::kActivate:
      return "activate";
    case OpKind::kAdd:
      return "add";
    case OpKind::kSelect:
      return "select";
    case OpKind::kSoftCap:
      return "soft_cap";
    case OpKind::kRoute:
      return "route";
    case OpKind::kExpertLinear:
      return "expert_linear";
    case OpKind::kExpertSum:
      return "expert_sum";
    case OpKind::kSigmoidGate:
      return "sigmoid_gate";
  }
  return "?";
}

}  // namespace troika::model
