#include "papers/npu/npu_memory.h"

#include <set>
#include <utility>

#include "base/units.h"
#include "engine/engine.h"
#include "papers/npu/npu_runs.h"
#include "schedule/shadow.h"
#include "schedule/shared_graphs.h"

namespace troika::papers {

// Gives every op a buffer of its own for its output, as the paper's framework does (section 4.5). A
// graph of a chunk's own repeats weights and buffers; a shared one repeats only what attention
// needs.
NpuMemory npu_memory(const std::string& folder, const std::string& model, int n_prompt) {
  const NpuGiven given = read_npu_given(folder);
  prepare::Options options = npu_options(folder, model);
  options.prompts.chunk = given.chunk;
  options.memory.context = n_prompt + 8;
  const engine::Engine engine(options);
  const model::Blueprint& blueprint = engine.blueprint();
  const schedule::SharedGraphs shared =
      schedule::count_shared(blueprint, engine.weights(), engine.plan());
  NpuMemory memory;
  memory.n_subgraphs = shared.n_subgraphs;
  memory.n_shared = shared.n_static;
  memory.buffer_bytes =
      static_cast<double>(shared.static_buffer_bytes + shared.dynamic_buffer_bytes);
  const auto dynamic_bytes = static_cast<double>(shared.dynamic_buffer_bytes);
  // A tied embedding is a weight of its own for the first op and for the last; the model has it
  // once.
  std::set<std::pair<std::string, int>> counted;
  for (const model::Weight& weight : blueprint.weights) {
    if (!counted.emplace(weight.name, weight.first_row).second) continue;
    memory.model_bytes += static_cast<double>(weight.n_rows) * weight.row_length;
  }
  for (const model::Op& op : blueprint.ops) {
    if (op.kind != model::OpKind::kLinear) continue;
    const model::Weight& weight = blueprint.weights[static_cast<size_t>(op.weight)];
    const double n_weights = static_cast<double>(weight.n_rows) * weight.row_length;
    memory.weight_bytes += n_weights;
    if (schedule::keeps_outliers(op.layer, blueprint.n_layers, given.prune)) {
      memory.shadow_bytes += given.hot_share * n_weights * kFloatBytes;
    }
  }
  const int n_chunks = (n_prompt + given.chunk - 1) / given.chunk;
  memory.unshared_bytes = n_chunks * (memory.weight_bytes + memory.buffer_bytes);
  memory.shared_bytes = memory.weight_bytes + memory.buffer_bytes + (n_chunks - 1) * dynamic_bytes;
  return memory;
}

}  // namespace troika::papers
