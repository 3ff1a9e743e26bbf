#include "lanes/host/own_rows.h"

#include <algorithm>
#include <functional>
#include <map>

#include "base/cache_line.h"

namespace troika::lanes {
namespace {

using model::OpKind;

// Says whether each worker can compute the op for itself.
bool can_be_own(const model::Op& op) {
  switch (op.kind) {
    case OpKind::kRmsNorm:
    case OpKind::kLayerNorm:
      return op.n_heads == 0;  // what follows heads turns them where they stand
    case OpKind::kGate:
    case OpKind::kActivate:
    case OpKind::kAdd:
    case OpKind::kSelect:
      return true;
    default:
      return false;
  }
}

// Says whether an executable that has such an op can compute rows so.
bool is_known(const BoundOp& bound) {
  const BoundProduct* const product = bound.product();
  switch (bound.op.kind) {
    case OpKind::kLinear:
      return product->neurons == nullptr && product->outliers.role == Role::kWhole &&
             !product->has_panels();
    case OpKind::kRmsNorm:
    case OpKind::kLayerNorm:
    case OpKind::kRope:
    case OpKind::kSoftCap:
      return true;
    default:
      return can_be_own(bound.op);
  }
}

bool reads(const model::Op& op, model::ValueId value) {
  return std::find(op.inputs.begin(), op.inputs.end(), value) != op.inputs.end();
}

// Says whether an op of the subgraph behind `index` reads what that op makes.
bool is_read_within(const Subgraph& subgraph, size_t index) {
  const model::ValueId value = subgraph.ops[index].output;
  for (const model::Op& op : subgraph.ops.subspan(index + 1)) {
    if (reads(op, value)) return true;
    if (op.output == value) return false;
  }
  return false;
}

// Says whether ops of the subgraph behind `index` overwrite its output.
bool is_overwritten(const Subgraph& subgraph, size_t index) {
  const model::ValueId value = subgraph.ops[index].output;
  const auto behind = subgraph.ops.subspan(index + 1);
  return std::any_of(behind.begin(), behind.end(),
                     [&](const model::Op& op) { return op.output == value; });
}

// Says whether somebody behind these ops may read what op `index` leaves at their end.
bool is_needed_behind(const Subgraph& subgraph, size_t index) {
  if (is_overwritten(subgraph, index)) return false;
  const model::ValueId value = subgraph.ops[index].output;
  const std::vector<model::Op>& all = subgraph.blueprint->ops;
  const model::Op* const end = all.data() + all.size();
  for (const model::Op* op = subgraph.ops.data() + subgraph.ops.size(); op < end; ++op) {
    if (reads(*op, value)) return true;
    if (op->output == value) return false;
  }
  // No op behind touches it. What these ops do not read themselves is what they were run for.
  return !is_read_within(subgraph, index);
}

// Says whether the rotation of a value reads what op `index` makes of it. Rotations work in place.
bool is_rotated(const Subgraph& subgraph, size_t index) {
  const model::ValueId value = subgraph.ops[index].output;
  for (const model::Op& op : subgraph.ops.subspan(index + 1)) {
    if (op.kind == OpKind::kRope && reads(op, value)) return true;
    if (op.output == value) return false;
  }
  return false;
}

// Places the values of an executable one op after the other, and finds where workers meet.
class Placing {
 public:
  Placing(const Subgraph& subgraph, const Buffers& buffers)
      : subgraph_(subgraph),
        buffers_(buffers),
        places_(subgraph.blueprint->values.size(), kShared) {}

  void place(size_t index, BoundOp* bound) {
    const bool is_own = can_be_own(bound->op) && !is_rotated(subgraph_, index) &&
                        !is_needed_behind(subgraph_, index);
    OwnPlaces& own = bound->own_places;
    // Other ops that go by rows would have to wait for all parts of a sum.
    const bool is_last = index + 1 == subgraph_.ops.size();
    own.shares_elements = !is_own && is_last && bound->op.kind == OpKind::kAdd;
    const bool is_by_rows = !is_own && !own.shares_elements && bound->product() == nullptr;
    own.meets_before = meets_before(*bound, is_own, is_by_rows);
    if (own.meets_before) touched_ = {};
    for (size_t i = 0; i < bound->op.inputs.size(); ++i) {
      const model::ValueId input = bound->op.inputs[i];
      if (input == model::kNone) continue;
      own.inputs[i] = place_of(input);
      if (own.inputs[i] == kShared) touched_.push_back({input, false, is_by_rows});
    }
    const model::ValueId output = bound->op.output;
    own.output = is_own ? take(output) : kShared;
    places_[static_cast<size_t>(output)] = own.output;
    if (!is_own) touched_.push_back({output, true, is_by_rows});
  }

  size_t n_floats() const { return n_floats_; }

 private:
  static constexpr int kShared = OwnPlaces::kShared;

  int place_of(model::ValueId value) const { return places_[static_cast<size_t>(value)]; }

  // What workers may have done with a shared value since they met.
  struct Touched {
    model::ValueId value;
    bool is_made;     // else it was read
    bool is_by_rows;  // by the worker whose row it is, else by several
  };

  // Workers meet before an op that reads what another worker may still be making, or writes what
  // another may still be making or reading. Ops that go by rows have their row on one worker.
  bool meets_before(const BoundOp& bound, bool is_own, bool is_by_rows) const {
    return std::any_of(touched_.begin(), touched_.end(), [&](const Touched& touched) {
      if (touched.is_by_rows && is_by_rows) return false;
      const bool is_written = !is_own && bound.op.output == touched.value;
      const bool is_read = place_of(touched.value) == kShared && reads(bound.op, touched.value);
      return is_written || (touched.is_made && is_read);
    });
  }

  // Returns where a worker keeps a value.
  int take(model::ValueId value) {
    const auto [at, is_new] = taken_.try_emplace(value, static_cast<int>(n_floats_));
    if (is_new) n_floats_ += whole_lines_of_floats(static_cast<size_t>(buffers_.width(value)));
    return at->second;
  }

  const Subgraph& subgraph_;
  const Buffers& buffers_;
  std::vector<int> places_;  // of each value, as it stands
  std::map<model::ValueId, int> taken_;
  size_t n_floats_ = 0;
  std::vector<Touched> touched_;
};

}  // namespace

size_t OwnRows::bytes() const { return n_floats * sizeof(float) + prepared_bytes; }

OwnRows place_own_rows(const Subgraph& subgraph, const Buffers& buffers,
                       std::vector<BoundOp>* ops) {
  const std::vector<model::Op>& all = subgraph.blueprint->ops;
  const std::less_equal<const model::Op*> is_not_behind;
  const model::Op* const first = subgraph.ops.data();
  const bool is_of_model = is_not_behind(all.data(), first) &&
                           is_not_behind(first + subgraph.ops.size(), all.data() + all.size());
  const bool is_whole = subgraph.role == Role::kWhole && subgraph.slice.is_all() &&
                        ops->size() == subgraph.ops.size();
  if (!is_of_model || !is_whole || !std::all_of(ops->begin(), ops->end(), is_known)) return {};
  OwnRows rows = {.are_there = true};
  Placing placing(subgraph, buffers);
  for (size_t i = 0; i < ops->size(); ++i) {
    BoundOp& bound = (*ops)[i];
    placing.place(i, &bound);
    if (bound.product() == nullptr) continue;
    rows.prepared_bytes = std::max(rows.prepared_bytes, whole_lines(prepared_row_bytes(bound)));
  }
  rows.n_floats = placing.n_floats();
  return rows;
}

size_t most_own_row_bytes(const model::Blueprint& blueprint, size_t prepared_bytes) {
  size_t bytes = whole_lines(prepared_bytes);
  for (size_t i = 0; i < blueprint.values.size(); ++i) {
    if (static_cast<model::ValueId>(i) == blueprint.logits) continue;
    const auto width = static_cast<size_t>(blueprint.values[i].width);
    bytes += whole_lines_of_floats(width) * sizeof(float);
  }
  return bytes;
}

}  // namespace troika::lanes
