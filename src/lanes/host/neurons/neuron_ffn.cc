#include "lanes/host/neurons/neuron_ffn.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/rows.h"
#include "lanes/host/experts/expert_groups.h"
#include "lanes/host/experts/experts.h"
#include "lanes/host/op_context.h"
#include "lanes/host/products.h"

namespace troika::lanes {
namespace {

using weights::kBatchTokens;
using weights::kSegmentNeurons;
using weights::NeuronFfn;

// An op that computes blocks by neuron, and where its values are.
struct NeuronOp {
  const BoundOp& bound;
  const OpContext& context;
  const float* gates;   // (rows, n_neurons)
  const float* inputs;  // (rows, width): the inputs, where products take floats
};

// Some tokens of a run, which take the same block.
struct TokenGroup : NeuronOp {
  const NeuronFfn& ffn;
  int first;  // the row of the first token; the prepared rows and the outputs have it too
  int n;
  int number;    // the group's number in its batch
  int n_before;  // counts the tokens of the batch's groups before it

  size_t n_neurons() const { return ffn.layout.n_neurons; }
  size_t n_outputs() const { return ffn.layout.n_outputs; }
  int n_segments() const { return weights::n_segments(ffn.n_neurons()); }
  const float* gate(int t) const { return gates + static_cast<size_t>(first + t) * n_neurons(); }
  float* activated(int t) const {
    return context.neurons->activated.data() + static_cast<size_t>(n_before + t) * n_neurons();
  }
  float* part(int t, int segment) const {
    return context.neurons->parts.data() +
           static_cast<size_t>((n_before + t) * n_segments() + segment) * n_outputs();
  }
  const BoundProduct& up() const { return bound.as<BoundProduct>(); }
  size_t width() const { return static_cast<size_t>(bound.input_width); }
  // Returns the input of a token, in one of the forms that products take.
  const float* x(int t) const { return inputs + static_cast<size_t>(first + t) * width(); }
  const std::byte* x_q8(int t) const {
    return context.prepared + static_cast<size_t>(first + t) * kernels::q8_row_bytes(width());
  }
  size_t rank() const { return ffn.predictor->shape().rank; }
  float* hidden(int t) const {
    return context.neurons->hidden.data() + static_cast<size_t>(n_before + t) * rank();
  }
  std::byte* hidden_q8(int t) const {
    return context.neurons->hidden_q8.data() +
           static_cast<size_t>(n_before + t) * kernels::q8_row_bytes(rank());
  }
  // Returns the neurons of a segment.
  Range neurons_of(int segment) const {
    const int begin = segment * kSegmentNeurons;
    return {begin, std::min(begin + kSegmentNeurons, ffn.n_neurons())};
  }
  // Returns the list of a segment's neurons that are live for some token, and their number.
  uint32_t* live(int segment) const {
    return context.neurons->live.data() + static_cast<size_t>(number) * n_neurons() +
           static_cast<size_t>(segment * kSegmentNeurons);
  }
  uint32_t& n_live(int segment) const {
    return context.neurons->n_live[static_cast<size_t>(number * n_segments() + segment)];
  }
  std::span<const uint32_t> live_of(int segment) const { return {live(segment), n_live(segment)}; }
  // Returns a neuron's row of the gate, where gates are in memory.
  const std::byte* gate_row(int neuron) const {
    const size_t before =
        ffn.ffn.is_expert() ? static_cast<size_t>(ffn.ffn.expert) * n_neurons() : 0;
    return up().gate.matrix.data +
           (before + static_cast<size_t>(neuron)) * up().gate.matrix.row_bytes;
  }
};

bool is_product_kind(model::OpKind kind) {
  return kind == model::OpKind::kLinear || kind == model::OpKind::kExpertLinear;
}

bool is_live(const NeuronFfn& ffn, float activated) {
  if (ffn.keeps_all) return true;
  // A value that is not a number counts as live, so that it shows in the output.
  return ffn.threshold > 0.0f ? !(std::fabs(activated) < ffn.threshold) : activated != 0.0f;
}

void activate_gate(model::Activation activation, const kernels::Table& kernels, const float* gate,
                   float* y, size_t n) {
  switch (activation) {
    case model::Activation::kSilu:
      return kernels.silu(gate, y, n);
    case model::Activation::kGelu:
      return kernels.gelu(gate, y, n);
    case model::Activation::kRelu:
    case model::Activation::kDoubleRelu:
      return kernels.relu(gate, y, n);
  }
}

// Multiplies a token's input with rows of weights, wherever the rows lie in memory.
void multiply_single_rows(const TokenGroup& group, int t, kernels::MatmulQ8* q8,
                          kernels::MatmulF32* f32, const kernels::SingleRows& rows, float* y) {
  if (q8 != nullptr) {
    kernels::matmul_rows(q8, rows, group.x_q8(t), y);
  } else {
    kernels::matmul_rows(f32, rows, group.x(t), y);
  }
}

// Multiplies the inputs with the predictor's first matrix. Each worker takes some of its rows.
void multiply_hidden(const TokenGroup& group, int worker) {
  const NeuronGate& gate = group.up().gate;
  const weights::PredictorShape& shape = group.ffn.predictor->shape();
  const Share share =
      share_of(static_cast<int64_t>(shape.rank), worker, group.context.team.n_active());
  const kernels::MatmulWeight rows = {
      group.ffn.predictor->layer(static_cast<uint64_t>(group.ffn.index)).in, shape.in_row_bytes(),
      shape.width, static_cast<size_t>(share.begin), static_cast<size_t>(share.end)};
  for (int t = 0; t < group.n; ++t) {
    if (gate.q8 != nullptr) {
      gate.predictor_q8(rows, 1, group.x_q8(t), 0, group.hidden(t), 0);
    } else {
      gate.predictor_f32(rows, 1, group.x(t), 0, group.hidden(t), 0);
    }
  }
}

// Brings the results of multiply_hidden() into the form that the predictor's second matrix takes.
// Each worker takes some tokens.
void prepare_hidden(const TokenGroup& group, int worker) {
  const Share share = share_of(group.n, worker, group.context.team.n_active());
  for (auto t = static_cast<int>(share.begin); t < static_cast<int>(share.end); ++t) {
    group.context.kernels.quantize_activations(group.hidden(t), group.hidden_q8(t), group.rank());
  }
}

// Computes the gates of the first n neurons of `own`, whose rows are in memory by now.
void compute_gates(const TokenGroup& group, int t, size_t n, NeuronScratch::Worker* own) {
  const NeuronGate& gate = group.up().gate;
  multiply_single_rows(group, t, gate.q8, gate.f32,
                       {{own->rows, n}, gate.matrix.row_bytes, group.width()}, own->up);
  activate_gate(group.ffn.ffn.activation, group.context.kernels, own->up, own->up, n);
  group.ffn.source->count({.n_gates = static_cast<int64_t>(n)});
  for (size_t i = 0; i < n; ++i) group.activated(t)[own->own[i]] = own->up[i];
}

// Computes the gates of those neurons in `read` that the predictor named for this token.
void compute_read_gates(const TokenGroup& group, int t, std::span<const uint32_t> read,
                        NeuronScratch::Worker* own) {
  size_t n = 0;
  for (size_t i = 0; i < read.size(); ++i) {
    if (group.activated(t)[read[i]] == 0.0f) continue;
    own->own[n] = read[i];
    own->rows[n++] = own->places[i].gate;
  }
  compute_gates(group, t, n, own);
}

// Computes a segment's gates for a token, but only for neurons whose score is above their threshold
// or not a number. The other neurons' gates count as 0, and so do those of hot neurons.
void compute_predicted(const TokenGroup& group, int t, Range neurons, NeuronScratch::Worker* own) {
  const NeuronGate& gate = group.up().gate;
  const weights::PredictorShape& shape = group.ffn.predictor->shape();
  const weights::NeuronPredictor::Layer layer =
      group.ffn.predictor->layer(static_cast<uint64_t>(group.ffn.index));
  const kernels::MatmulWeight rows = {layer.out, shape.out_row_bytes(), shape.rank,
                                      static_cast<size_t>(neurons.begin),
                                      static_cast<size_t>(neurons.end)};
  float* const activated = group.activated(t);  // holds scores at first
  if (gate.q8 != nullptr) {
    gate.predictor_q8(rows, 1, group.hidden_q8(t), 0, activated, 0);
  } else {
    gate.predictor_f32(rows, 1, group.hidden(t), 0, activated, 0);
  }
  size_t n = 0;
  for (int i = neurons.begin; i < neurons.end; ++i) {
    const bool is_dead = activated[i] <= layer.thresholds[i] || group.ffn.is_hot(i);
    // If the gates' rows must be read first, 1 marks the neurons to read, and gates come later.
    activated[i] = group.ffn.reads_gates && !is_dead ? 1.0f : 0.0f;
    if (is_dead || group.ffn.reads_gates) continue;
    own->own[n] = static_cast<uint32_t>(i);
    own->rows[n++] = group.gate_row(i);
  }
  compute_gates(group, t, n, own);
}

// Computes the activations of a segment, and lists the neurons that are live for some token, but no
// hot ones.
void find_live(const TokenGroup& group, int segment, int worker) {
  const Range neurons = group.neurons_of(segment);
  const auto first = static_cast<size_t>(neurons.begin);
  const auto n = static_cast<size_t>(neurons.size());
  NeuronScratch::Worker* const own = &group.context.neurons->workers[static_cast<size_t>(worker)];
  for (int t = 0; t < group.n; ++t) {
    if (predicts(group.ffn)) {
      compute_predicted(group, t, neurons, own);
    } else {
      activate_gate(group.ffn.ffn.activation, group.context.kernels, group.gate(t) + first,
                    group.activated(t) + first, n);
    }
  }
  uint32_t* live = group.live(segment);
  for (int i = neurons.begin; i < neurons.end; ++i) {
    if (group.ffn.is_hot(i)) continue;
    bool is_any = false;
    for (int t = 0; t < group.n; ++t) {
      const float activated = group.activated(t)[i];
      is_any |= group.ffn.reads_gates ? activated != 0.0f : is_live(group.ffn, activated);
    }
    if (is_any) *live++ = static_cast<uint32_t>(i);
  }
  group.n_live(segment) = static_cast<uint32_t>(live - group.live(segment));
}

// Computes what a segment's live neurons add to a token's outputs. Returns their number.
size_t compute_token(const TokenGroup& group, int t, int segment, NeuronScratch::Worker* own) {
  const std::span<const uint32_t> live = group.live_of(segment);
  const float* const activated = group.activated(t);
  size_t n = 0;
  for (size_t i = 0; i < live.size(); ++i) {
    if (!is_live(group.ffn, activated[live[i]])) continue;
    own->own[n] = live[i];
    own->rows[n] = own->places[i].up;
    own->columns[n] = {live[i], 0.0f, own->places[i].down};
    ++n;
  }
  const BoundProduct& up = group.up();
  multiply_single_rows(group, t, up.matmul_q8, up.matmul_f32,
                       {{own->rows, n}, up.weight.matrix.row_bytes, group.width()}, own->up);
  const bool is_double = group.ffn.ffn.activation == model::Activation::kDoubleRelu;
  size_t n_columns = 0;
  for (size_t i = 0; i < n; ++i) {
    float value = activated[own->own[i]] * own->up[i];
    if (is_double && value < 0.0f) value = 0.0f;
    if (value == 0.0f && !group.ffn.keeps_all) continue;
    own->columns[n_columns] = own->columns[i];
    own->columns[n_columns++].value = value;
  }
  const auto form = static_cast<size_t>(group.ffn.layout.form);
  group.context.kernels.add_columns[form](group.ffn.planes, {own->columns, n_columns}, 0,
                                          group.n_outputs(), group.part(t, segment));
  return n;
}

// Tells the source which of a segment's neurons fire for some token, now that their gates are
// known. Returns whether all of these are in memory.
bool tell_live(const TokenGroup& group, int part, NeuronScratch::Worker* own) {
  size_t n = 0;
  for (const uint32_t neuron : group.live_of(part % group.n_segments())) {
    bool is_any = false;
    for (int t = 0; t < group.n; ++t) is_any |= is_live(group.ffn, group.activated(t)[neuron]);
    if (is_any) own->own[n++] = neuron;
  }
  return group.ffn.source->tell_live(part, {own->own, n});
}

// Computes a part of a batch: a segment of the group's block. Where only the gates of some neurons
// have been read, it computes these, and the part comes again.
void compute_part(const TokenGroup& group, int part, int worker) {
  weights::NeuronSource& source = *group.ffn.source;
  const int segment = part % group.n_segments();
  NeuronScratch::Worker* const own = &group.context.neurons->workers[static_cast<size_t>(worker)];
  const std::span<const uint32_t> neurons = group.live_of(segment);
  const weights::TakenPart taken = source.take(group.ffn.index, part, neurons, own->places);
  if (group.ffn.reads_gates && taken != weights::TakenPart::kRest) {
    for (int t = 0; t < group.n; ++t) compute_read_gates(group, t, neurons, own);
  }
  if (taken == weights::TakenPart::kGates && !tell_live(group, part, own)) return;
  size_t n_live = 0;
  for (int t = 0; t < group.n; ++t) n_live += compute_token(group, t, segment, own);
  source.count({.n_neurons = int64_t{group.n} * group.neurons_of(segment).size(),
                .n_live = static_cast<int64_t>(n_live)});
  source.done(part);
}

// Adds the segments' sums of some outputs, in the order of the segments.
void add_parts(const TokenGroup& group, int worker) {
  const auto width = static_cast<size_t>(group.bound.output_width);
  const Share share = share_of(static_cast<int64_t>(group.n_outputs() / kernels::kColumnBlock),
                               worker, group.context.team.n_active());
  const size_t begin = static_cast<size_t>(share.begin) * kernels::kColumnBlock;
  const size_t end = std::min(static_cast<size_t>(share.end) * kernels::kColumnBlock, width);
  if (begin >= end) return;
  for (int t = 0; t < group.n; ++t) {
    float* y = group.context.output(group.bound) + static_cast<size_t>(group.first + t) * width;
    std::memcpy(y + begin, group.part(t, 0) + begin, (end - begin) * sizeof(float));
    for (int segment = 1; segment < group.n_segments(); ++segment) {
      group.context.kernels.add(y + begin, group.part(t, segment) + begin, y + begin, end - begin);
    }
  }
}

// Each worker draws tickets until it gets one past a batch's last item. So the number of tickets
// drawn is known, and the next batch goes on from it.
struct Tickets {
  Tickets(const OpContext& context, int index)
      : next(context.counters[static_cast<ptrdiff_t>(index) * context.team.size()].n_begun) {}

  std::atomic<int64_t>& next;
  int64_t first = 0;  // the batch's first
};

// Computes rows of blocks, as many together as a batch holds. Neurons of all blocks of a batch are
// asked for at once. All workers do the same with a batch of their own.
class Batches {
 public:
  Batches(const NeuronOp& op, int index, int worker)
      : op_(op), tickets_(op.context, index), worker_(worker) {}

  void add(const NeuronFfn& ffn, Range rows);
  // Computes what was added last.
  void finish();

 private:
  // Says which rows a group has, and of which block.
  struct BlockRows {
    const NeuronFfn* ffn;
    int first, n, n_before;
  };

  TokenGroup group(int i) const {
    const BlockRows& rows = groups_[i];
    return {op_, *rows.ffn, rows.first, rows.n, i, rows.n_before};
  }
  template <typename Body>
  void for_each_group(Body body) const {
    for (int i = 0; i < n_; ++i) body(group(i));
  }
  void find_live_neurons() const;
  void tell_wanted() const;
  int next_part(int n_parts);
  void show() const;

  const NeuronOp& op_;
  Tickets tickets_;
  int worker_;
  BlockRows groups_[kBatchTokens] = {};
  int n_ = 0;         // counts groups
  int n_tokens_ = 0;  // counts the tokens of all of them
};

void Batches::find_live_neurons() const {
  Barrier& barrier = op_.context.team.barrier();
  if (predicts(*groups_[0].ffn)) {
    for_each_group([&](const TokenGroup& group) { multiply_hidden(group, worker_); });
    barrier.wait();
    for_each_group([&](const TokenGroup& group) { prepare_hidden(group, worker_); });
    barrier.wait();
  }
  const int n_segments = group(0).n_segments();
  const Share share = share_of(n_ * n_segments, worker_, op_.context.team.n_active());
  for (auto i = static_cast<int>(share.begin); i < static_cast<int>(share.end); ++i) {
    find_live(group(i / n_segments), i % n_segments, worker_);
  }
  barrier.wait();
}

// Tells the source all neurons that the batch needs, part after part.
void Batches::tell_wanted() const {
  weights::NeuronSource& source = *groups_[0].ffn->source;
  source.begin_batch(n_ * group(0).n_segments());
  for_each_group([&](const TokenGroup& group) {
    for (int segment = 0; segment < group.n_segments(); ++segment) {
      source.want(group.ffn.index, group.live_of(segment));
    }
  });
}

// Shows the observer which neurons live, where gates are known by now.
void Batches::show() const {
  InputObserver* const observer = op_.context.run.observer;
  if (observer == nullptr || groups_[0].ffn->reads_gates) return;
  for_each_group([&](const TokenGroup& group) {
    observer->observe_gate({group.ffn.index, group.ffn.ffn.layer}, group.activated(0), group.n,
                           group.ffn.n_neurons());
  });
}

// Returns the part that this worker computes next; kNoPart: there are no more.
int Batches::next_part(int n_parts) {
  weights::NeuronSource& source = *groups_[0].ffn->source;
  if (source.reads_ahead()) return source.next_part();
  const int64_t part = tickets_.next.fetch_add(1, std::memory_order_relaxed) - tickets_.first;
  return part < n_parts ? static_cast<int>(part) : weights::NeuronSource::kNoPart;
}

void Batches::finish() {
  if (n_ == 0) return;
  Barrier& barrier = op_.context.team.barrier();
  find_live_neurons();
  if (worker_ == 0) show();
  weights::NeuronSource& source = *groups_[0].ffn->source;
  const int n_segments = group(0).n_segments(), n_parts = n_ * n_segments;
  // Other workers begin with what is there already.
  if (source.reads_ahead() && worker_ == 0) tell_wanted();
  for (int part; (part = next_part(n_parts)) != weights::NeuronSource::kNoPart;) {
    compute_part(group(part / n_segments), part, worker_);
  }
  barrier.wait();
  if (worker_ == 0) source.finish();
  for_each_group([&](const TokenGroup& group) { add_parts(group, worker_); });
  if (!source.reads_ahead()) tickets_.first += n_parts + op_.context.team.n_active();
  n_ = n_tokens_ = 0;
}

void Batches::add(const NeuronFfn& ffn, Range rows) {
  for (int first = rows.begin; first < rows.end;) {
    const int n = std::min(kBatchTokens, rows.end - first);
    // A block whose tokens were divided between batches would be multiplied, and read, in both.
    if (n_tokens_ + n > kBatchTokens) finish();
    groups_[n_++] = {&ffn, first, n, n_tokens_};
    n_tokens_ += n;
    first += n;
  }
}

// Shows the observer a mixture's tokens, and which experts they take.
void show_mixture(const BoundOp& bound, const OpContext& context) {
  const BoundProduct& up = bound.as<BoundProduct>();
  const float* const routes = context.input(bound, 1);
  std::vector<int> experts;
  const auto n_tokens = static_cast<size_t>(context.run.n_tokens);
  for (size_t i = 0; i < n_tokens * static_cast<size_t>(up.experts.n_used); ++i) {
    experts.push_back(read_route(routes, i).expert);
  }
  context.run.observer->observe_mixture(up.neurons->ffn.layer, context.input(bound),
                                        context.run.n_tokens, bound.input_width, experts);
}

void begin_tokens(const BoundOp& bound, const OpContext& context, int worker) {
  weights::NeuronSource& source = *bound.as<BoundProduct>().neurons->source;
  if (worker != 0 || !source.reads_ahead()) return;
  if (context.run.phase == plan::Phase::kPrompt) return source.begin_prompt();
  source.begin_step(context.n_rows(bound));
}

}  // namespace

void NeuronScratch::reserve(const NeuronFfn& ffn, int n_workers) {
  const auto n_segments = static_cast<size_t>(weights::n_segments(ffn.n_neurons()));
  const size_t n = ffn.layout.n_neurons;
  const auto n_blocks = static_cast<size_t>(weights::most_blocks_of_batch(ffn.ffn.n_experts));
  activated.resize(std::max(activated.size(), kBatchTokens * n));
  live.resize(std::max(live.size(), n_blocks * n));
  n_live.resize(std::max(n_live.size(), n_blocks * n_segments));
  parts.resize(std::max(parts.size(), kBatchTokens * n_segments * ffn.layout.n_outputs));
  workers.resize(std::max(workers.size(), static_cast<size_t>(n_workers)));
  if (!predicts(ffn)) return;
  const size_t rank = ffn.predictor->shape().rank;
  hidden.resize(std::max(hidden.size(), kBatchTokens * rank));
  hidden_q8.resize(std::max(hidden_q8.size(), kBatchTokens * kernels::q8_row_bytes(rank)));
}

size_t NeuronScratch::bytes() const {
  return (activated.capacity() + parts.capacity() + hidden.capacity()) * sizeof(float) +
         hidden_q8.capacity() + (live.capacity() + n_live.capacity()) * sizeof(uint32_t) +
         workers.capacity() * sizeof(Worker);
}

size_t NeuronScratch::bytes_for(const Shape& shape, int n_workers) {
  const auto n_segments =
      static_cast<size_t>(weights::n_segments(static_cast<int>(shape.n_neurons)));
  return kBatchTokens * (shape.n_neurons + n_segments * shape.n_outputs) * sizeof(float) +
         shape.n_blocks * (shape.n_neurons + n_segments) * sizeof(uint32_t) +
         kBatchTokens * (shape.rank * sizeof(float) + kernels::q8_row_bytes(shape.rank)) +
         static_cast<size_t>(n_workers) * sizeof(Worker);
}

const NeuronFfn* neuron_ffn_at(const Subgraph& subgraph, size_t index,
                               const weights::Store& weights) {
  const std::span<const model::Op> ops = subgraph.ops;
  if (weights.neurons() == nullptr || index + 2 >= ops.size()) return nullptr;
  if (!is_product_kind(ops[index + 2].kind)) return nullptr;
  const NeuronFfn* const ffn = weights.neurons()->find(ops[index + 2].weight);
  const bool is_whole = ffn != nullptr && ops[index].weight == ffn->ffn.up &&
                        ops[index + 1].kind == model::OpKind::kGate;
  return is_whole ? ffn : nullptr;
}

void check_neuron_ffns(const Subgraph& subgraph, const weights::Store& weights) {
  if (weights.neurons() == nullptr) return;
  for (size_t i = 0; i < subgraph.ops.size(); ++i) {
    if (!is_product_kind(subgraph.ops[i].kind)) continue;
    if (weights.neurons()->find(subgraph.ops[i].weight) == nullptr) continue;
    const bool is_cut = !subgraph.slice.columns.empty();
    if (!is_cut && i >= 2 && neuron_ffn_at(subgraph, i - 2, weights) != nullptr) continue;
    throw Error(
        fmt::format("The product of '{}' is computed by neuron, together with what stands before "
                    "it, but the plan cuts '{}'. Leave that cut out, or use ‹ffn› by-output.",
                    subgraph.blueprint->weights[static_cast<size_t>(subgraph.ops[i].weight)].name,
                    subgraph.name));
  }
}

void run_neuron_ffn(const BoundOp& bound, const OpContext& context, int index, int worker) {
  const BoundProduct& up = bound.as<BoundProduct>();
  if (up.prepares_input) {
    prepare_rows(bound, context, worker);
    context.team.barrier().wait();
  }
  begin_tokens(bound, context, worker);
  const NeuronOp op = {bound, context, context.input(bound, 1), context.input(bound)};
  Batches batches(op, index, worker);
  batches.add(*up.neurons, {0, context.n_rows(bound)});
  batches.finish();
}

void run_neuron_experts(const BoundOp& bound, const OpContext& context, int index, int worker) {
  const BoundProduct& up = bound.as<BoundProduct>();
  const ExpertGroups groups(up.experts, context, worker, context.input(bound, 1));
  if (up.prepares_input) {
    prepare_parts(bound, context, worker, groups);
    context.team.barrier().wait();
  }
  begin_tokens(bound, context, worker);
  if (worker == 0 && context.run.observer != nullptr) show_mixture(bound, context);
  // Inputs stand by expert, as gates and outputs do.
  const NeuronOp op = {bound, context, context.input(bound, 2),
                       reinterpret_cast<const float*>(context.prepared)};
  Batches batches(op, index, worker);
  for (const int32_t expert : groups.all_active()) {
    const auto e = static_cast<size_t>(expert);
    batches.add(up.neurons[e], {static_cast<int>(groups.start(e)),
                                static_cast<int>(groups.start(e) + groups.size(e))});
  }
  batches.finish();
}

}  // namespace troika::lanes
