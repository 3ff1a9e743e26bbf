#include "prepare/device_memory.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "lanes/host/scratch.h"
#include "lanes/opencl/panels.h"
#include "lanes/opencl/run_data.h"
#include "lanes/opencl/variants.h"
#include "lanes/weight_forms.h"
#include "model/rope.h"
#include "schedule/cut/plan_cuts.h"
#include "schedule/graphs.h"
#include "weights/neurons/hot_neurons.h"

namespace troika::prepare {
namespace {

using lanes::Range;
using model::OpKind;

// The part of a subgraph that a lane computes in one shape.
struct LanePiece {
  const lanes::Subgraph& subgraph;
  plan::Phase phase;
  int n_tokens;
  const std::vector<Range>& rows;  // of each product; empty: all rows
};

// Calls `take` with every part that a lane has.
template <typename Take>
void each_piece(const model::Blueprint& blueprint, const plan::Plan& plan, int lane,
                const Take& take) {
  std::vector<plan::Shape> of_outputs;
  for (const int n : plan.output_shapes) of_outputs.push_back({plan::Phase::kStep, n});
  const std::vector<plan::Shape> of_bodies = plan.body_shapes();
  for (const lanes::Subgraph& subgraph : schedule::cut_into_subgraphs(blueprint, plan.splits)) {
    for (const plan::Shape& shape : subgraph.is_head() ? of_outputs : of_bodies) {
      schedule::RangeCut parts = schedule::range_cut_of(plan, subgraph, shape);
      if (parts.empty()) {
        parts.push_back({.lane = plan.lane_of(subgraph.name, shape, subgraph.block())});
      }
      for (const schedule::LaneRanges& part : parts) {
        const int n_tokens = part.tokens.within(shape.n_rows).size();
        if (part.lane != lane || n_tokens == 0) continue;
        take(LanePiece{subgraph, shape.phase, n_tokens, part.rows});
      }
    }
  }
}

// Calls `take` with each product of a part, its matrix and the rows that the part multiplies.
template <typename Take>
void each_product(const LanePiece& part, const weights::Store& weights, const Take& take) {
  size_t product = 0;
  for (const model::Op& op : part.subgraph.ops) {
    if (op.kind != OpKind::kLinear) continue;
    const weights::Matrix& matrix = weights.matrix(op.weight);
    const Range rows = part.rows.empty() ? Range() : part.rows[product];
    ++product;
    const Range some = rows.within(matrix.n_rows);
    if (some.size() > 0) take(op, matrix, some);
  }
}

size_t size_of(int n) { return static_cast<size_t>(n); }

// Reckons an OpenCL lane (lanes/opencl/): panels of each weight, once for all executables, and what
// its ops share: forms of activations, and where the parts of experts stand.
class OpenclMemory {
 public:
  OpenclMemory(const model::Blueprint& blueprint, const weights::Store& weights,
               const plan::Plan& plan)
      : blueprint_(blueprint), weights_(weights), plan_(plan) {}

  void add(const LanePiece& part) {
    const lanes::OpenclForms forms =
        lanes::opencl_forms(plan_.prefill, plan_.activations, part.phase);
    const bool is_float = forms.is_float, is_exact = forms.is_exact;
    const bool is_half = part.phase == plan::Phase::kPrompt && plan_.prefill == plan::Prefill::kF16;
    if (!is_float && !is_exact) return;  // the lane refuses it
    each_product(
        part, weights_, [&](const model::Op& op, const weights::Matrix& matrix, Range rows) {
          add_vector(op.bias);
          if (is_exact && op.keeps_float) return;  // cores compute it
          add_panels(matrix, rows, is_exact);
          add_activations(matrix, size_of(part.n_tokens), is_exact, is_half && !op.keeps_float);
        });
    if (!is_float) return;
    for (const model::Op& op : part.subgraph.ops) {
      if (op.kind == OpKind::kEmbed) {
        const weights::Matrix& matrix = weights_.matrix(op.weight);
        add_panels(matrix, {0, matrix.n_rows}, false);
      } else if (op.kind == OpKind::kRmsNorm || op.kind == OpKind::kLayerNorm) {
        add_vector(op.weight);
        add_vector(op.bias);
      } else if (model::is_of_experts(op.kind)) {
        add_experts(op, part, is_half);
      }
    }
  }

  size_t bytes() const { return copies_ + group_sums_ + halves_ + levels_ + parts_; }

 private:
  void add_panels(const weights::Matrix& matrix, Range rows, bool is_exact) {
    if (!seen_.insert({matrix.data, is_exact, rows.begin, rows.end}).second) return;
    copies_ += lanes::opencl::panel_bytes(matrix.type, is_exact, size_of(rows.size()),
                                          size_of(matrix.row_length));
  }

  void add_activations(const weights::Matrix& matrix, size_t n_tokens, bool is_exact,
                       bool is_half) {
    const size_t k = size_of(matrix.row_length);
    if (is_exact) {
      levels_ = std::max(levels_, (n_tokens + 1) * (k + 1) * sizeof(float));
      return;
    }
    const lanes::opencl::PanelForm form = lanes::opencl::form_of(matrix.type);
    const size_t group_bytes = n_tokens * ((k + form.group - 1) / form.group) * sizeof(float);
    if (is_half && lanes::opencl::fits_halves(form)) {
      halves_ = std::max(halves_, n_tokens * k * sizeof(uint16_t));
      group_sums_ = std::max(group_sums_, 2 * group_bytes);
    } else if (form.has_minima) {
      group_sums_ = std::max(group_sums_, group_bytes);
    }
  }

  // An expert's rows begin with a strip of their own, and a token has a part for each of its
  // experts.
  void add_experts(const model::Op& op, const LanePiece& part, bool is_half) {
    const size_t n = size_of(blueprint_.n_experts), n_used = size_of(blueprint_.n_experts_used);
    const size_t n_tokens = size_of(part.n_tokens);
    parts_ = std::max(parts_, lanes::opencl::parts_table_bytes(n_tokens, n, n_used));
    if (op.kind != OpKind::kExpertLinear) return;
    const weights::Matrix& matrix = weights_.matrix(op.weight);
    add_activations(matrix, op.takes_parts ? n_tokens * n_used : n_tokens, false, is_half);
    if (!seen_.insert({matrix.data, false, 0, matrix.n_rows}).second) return;
    copies_ += lanes::opencl::panel_bytes(
        matrix.type, false, lanes::opencl::rows_of_experts(size_of(matrix.n_rows) / n, n),
        size_of(matrix.row_length));
  }

  void add_vector(model::WeightId id) {
    if (id == model::kNone || !vectors_.insert(id).second) return;
    copies_ += size_of(blueprint_.weights[static_cast<size_t>(id)].row_length) * sizeof(float);
  }

  const model::Blueprint& blueprint_;
  const weights::Store& weights_;
  const plan::Plan& plan_;
  std::set<std::tuple<const std::byte*, bool, int, int>> seen_;
  std::set<model::WeightId> vectors_;
  size_t copies_ = 0, group_sums_ = 0, halves_ = 0, levels_ = 0, parts_ = 0;
};

// Reckons a lane of OpenVINO (lanes/vendor/): levels or bf16 of each weight, once more in the form
// of each graph, which is for one number of tokens, and the values of one product.
class OpenvinoMemory {
 public:
  OpenvinoMemory(const weights::Store& weights, const plan::Plan& plan)
      : weights_(weights),
        is_bf16_(plan.prefill == plan::Prefill::kBf16),
        unit_(lanes::openvino_bytes_each(plan.prefill)) {}

  void add(const LanePiece& part) {
    if (part.phase != plan::Phase::kPrompt) return;  // the lane refuses it
    model::ValueId input = model::kNone;
    size_t n_rows = 0;  // counts rows of products that read the same input
    each_product(
        part, weights_, [&](const model::Op& op, const weights::Matrix& matrix, Range rows) {
          const size_t n = size_of(rows.size()), k = size_of(matrix.row_length);
          const size_t weight = n * k * unit_;
          const auto key = std::tuple(matrix.data, rows.begin, rows.end);
          if (weights_seen_.insert(key).second) {
            copies_ += weight + (is_bf16_ ? 0 : n * sizeof(float));
          }
          if (graphs_seen_.insert(std::pair(key, part.n_tokens)).second) copies_ += weight;
          n_rows = op.inputs[0] == input ? n_rows + n : n;
          input = op.inputs[0];
          pool_ = std::max(pool_, size_of(part.n_tokens) * (k * unit_ + n_rows * sizeof(float)));
        });
  }

  size_t bytes() const { return copies_ + pool_; }

 private:
  using Key = std::tuple<const std::byte*, int, int>;

  const weights::Store& weights_;
  bool is_bf16_;
  size_t unit_;  // the bytes of a number
  std::set<Key> weights_seen_;
  std::set<std::pair<Key, int>> graphs_seen_;
  size_t copies_ = 0, pool_ = 0;
};

// Returns the bytes of what runs bring along to kernels that compute in floats.
size_t run_bytes(const model::Blueprint& blueprint, const plan::Plan& plan) {
  const int n_pairs =
      model::first_pair_of(blueprint.ropes, static_cast<int>(blueprint.ropes.size()));
  return lanes::opencl::kQueueDepth *
         lanes::opencl::RunData::bytes_for(size_of(plan.most_rows()), size_of(n_pairs));
}

// Returns the bytes that a lane's cores need where they compute experts of prompts in int8 for it.
size_t expert_bytes(const model::Blueprint& blueprint, const plan::Plan& plan, int lane) {
  if (plan.prefill != plan::Prefill::kInt8) return 0;
  bool has_experts = false;
  each_piece(blueprint, plan, lane, [&](const LanePiece& part) {
    if (part.phase != plan::Phase::kPrompt) return;
    for (const model::Op& op : part.subgraph.ops) {
      has_experts = has_experts || model::is_of_experts(op.kind);
    }
  });
  if (!has_experts) return 0;
  plan::PlannedLane cores = plan.lanes[static_cast<size_t>(lane)];
  cores.n_threads = std::max(1, static_cast<int>(cores.cores.size()));
  return lanes::host_scratch_bytes(blueprint, cores, plan);
}

// Returns the bytes of panels of hot neurons, which steps multiply in float.
size_t hot_panel_bytes(const model::Blueprint& blueprint, const weights::Store& weights,
                       const plan::Plan& plan, int lane) {
  const plan::FfnHot& hot = plan.ffn.hot;
  if (!hot.is_there() || hot.lane != lane) return 0;
  const std::vector<model::GatedFfn> ffns = model::gated_ffns(blueprint);
  size_t bytes = 0;
  for (const weights::HotMatrix& matrix :
       weights::hot_matrices(ffns, weights::hot_counts(ffns, hot.percent, weights), weights)) {
    bytes += lanes::opencl::panel_bytes(matrix.type, false, size_of(matrix.n_rows),
                                        size_of(matrix.row_length));
  }
  return bytes;
}

}  // namespace

size_t device_bytes(const model::Blueprint& blueprint, const weights::Store& weights,
                    const plan::Plan& plan, int lane) {
  const auto add_all = [&](auto memory) {
    each_piece(blueprint, plan, lane, [&](const LanePiece& part) { memory.add(part); });
    return memory.bytes();
  };
  const std::string& kind = plan.lanes[static_cast<size_t>(lane)].kind;
  if (kind == "opencl") {
    return add_all(OpenclMemory(blueprint, weights, plan)) +
           hot_panel_bytes(blueprint, weights, plan, lane) + run_bytes(blueprint, plan) +
           expert_bytes(blueprint, plan, lane);
  }
  if (kind == "openvino") return add_all(OpenvinoMemory(weights, plan));
  return 0;
}

size_t device_list_bytes(const plan::PlannedLane& lane, size_t n_positions) {
  if (lane.kind != "opencl") return 0;
  return lanes::opencl::kQueueDepth * lanes::opencl::RunData::list_bytes_for(n_positions);
}

}  // namespace troika::prepare
