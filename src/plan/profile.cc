#include "plan/profile.h"

#include <sys/utsname.h>

#include <algorithm>

#include "base/cpu_features.h"
#include "base/system.h"
#include "base/units.h"

namespace troika::plan {
namespace {

using model::OpKind;

// Counts positions seen by all tokens together, when each token sees those before it and itself.
double n_seen(const OpShape& shape) {
  const double n = shape.n_tokens;
  return n * shape.context - n * (n - 1.0) / 2.0;
}

}  // namespace

const OpTime* Profile::find(int lane, const OpShape& shape) const {
  const auto at = std::find_if(ops.begin(), ops.end(), [&](const OpTime& time) {
    return time.lane == lane && time.shape == shape;
  });
  return at == ops.end() ? nullptr : &*at;
}

bool Profile::refuses(int lane, model::OpKind op, Phase phase) const {
  return std::find(refusals.begin(), refusals.end(), RefusedOp{lane, op, phase}) != refusals.end();
}

double Profile::start_us(int lane) const {
  for (const StartTime& start : starts) {
    if (start.lane == lane) return start.us;
  }
  return 0.0;
}

bool depends_on_phase(OpKind op) { return op == OpKind::kLinear || op == OpKind::kAttention; }

double op_bytes(const OpShape& shape) {
  const double n = shape.n_tokens;
  const double rows = shape.n_rows;
  const double k = shape.k;
  const tensor::TypeInfo& type = tensor::type_info(shape.type);
  const double element_bytes = static_cast<double>(type.block_bytes) / type.block_length;
  switch (shape.op) {
    case OpKind::kLinear:
      return rows * k * element_bytes + kFloatBytes * n * (rows + k);
    case OpKind::kAttention:
      // Each token reads the keys and values of the positions that it sees anew.
      return 2.0 * n_seen(shape) * k * element_bytes + kFloatBytes * n * (2.0 * rows + 2.0 * k);
    case OpKind::kEmbed:
      return n * rows * (element_bytes + kFloatBytes);
    case OpKind::kGate:
    case OpKind::kAdd:
    case OpKind::kExpertSum:
      return kFloatBytes * n * (rows + 2.0 * k);
    default:
      return kFloatBytes * n * (rows + k);
  }
}

double op_flops(const OpShape& shape) {
  const double n = shape.n_tokens;
  if (shape.op == OpKind::kLinear) return 2.0 * n * shape.n_rows * shape.k;
  if (shape.op == OpKind::kAttention) return 4.0 * n_seen(shape) * shape.n_rows;
  return n * shape.n_rows;
}

MachineIdentity this_machine() {
  MachineIdentity machine;
  machine.cpu = processor_name();
  machine.n_cores = usable_cores();
  machine.features = to_string(detect_cpu_features());
  machine.memory_bytes = memory_limit_bytes();
  utsname names{};
  if (uname(&names) == 0) machine.kernel = std::string(names.sysname) + " " + names.release;
  return machine;
}

}  // namespace troika::plan
