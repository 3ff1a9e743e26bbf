#include "lanes/host/host_lane.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "base/cache_line.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/huge_pages.h"
#include "lanes/host/attention/attention.h"
#include "lanes/host/experts/expert_reads.h"
#include "lanes/host/experts/experts.h"
#include "lanes/host/give_way.h"
#include "lanes/host/own_rows.h"
#include "lanes/host/products.h"
#include "lanes/host/run_op.h"
#include "lanes/host/slices.h"
#include "lanes/host/sparse/head_parts.h"

namespace troika::lanes {
class HostExecutable : public Executable {
 public:
  HostExecutable(int n_tokens, const TokenSlice& tokens, std::vector<BoundOp> ops,
                 const OwnRows& own_rows, const weights::Store& weights, const Buffers& buffers)
      : Executable(n_tokens),
        tokens_(tokens),
        ops_(std::move(ops)),
        own_rows_(own_rows),
        weights_(weights),
        set_stride_(buffers.set_stride()) {
    TaskBindings bindings;
    for (BoundOp& bound : ops_) {
      BoundProduct* const product = bound.product();
      if (product == nullptr || !weights.is_switched(bound.op.weight)) continue;
      product->lease = bindings.add(bound.op.weight);
    }
    if (bindings.empty()) return;
    for (int set = 1; set < buffers.n_sets(); ++set) bindings_.push_back(bindings.unbound());
    bindings_.push_back(std::move(bindings));
  }

  TaskBindings* bindings(int buffer_set) const override {
    return bindings_.empty() ? nullptr : &bindings_[static_cast<size_t>(buffer_set)];
  }
  const weights::Store& weights() const { return weights_; }
  const TokenSlice& tokens() const { return tokens_; }

  const std::vector<BoundOp>& ops() const { return ops_; }
  const OwnRows& own_rows() const { return own_rows_; }
  size_t set_stride() const { return set_stride_; }

 private:
  TokenSlice tokens_;
  std::vector<BoundOp> ops_;
  OwnRows own_rows_;
  const weights::Store& weights_;
  // Bindings for each set of buffers, because a run has its set to itself.
  mutable std::vector<TaskBindings> bindings_;
  size_t set_stride_;  // counts floats from one set of buffers to the next
};

namespace {

// Gives a buffer whose contents nobody needs room for n values and no more: a vector that grows
// takes up to twice what it is asked for.
template <typename T>
void make_room(size_t n, std::vector<T>* values) {
  if (values->size() >= n) return;
  *values = std::vector<T>();
  values->reserve(n);
  prefer_huge_pages(values->data(), n * sizeof(T));
  values->resize(n);
}

// Returns how long workers have waited for experts or neurons that come from a disk.
WaitTimes waited_for(const weights::Store& weights) {
  if (weights.experts() != nullptr) return weights.experts()->waited();
  if (weights.neurons() != nullptr) return weights.neurons()->waited();
  return {};
}

}  // namespace

HostLane::HostLane(const kernels::Table& kernels, const plan::PlannedLane& lane,
                   plan::Activations activations, plan::Prefill prefill,
                   const Int8Rules* int8_rules, const plan::PromptAttention& attention)
    : kernels_(kernels),
      activations_(activations),
      prefill_(prefill),
      int8_rules_(int8_rules),
      attention_(attention),
      team_(lane.n_threads, lane.cores) {
  info_.name = "host";
  for (size_t i = 0; i < lane.cores.size(); ++i) {
    info_.name += fmt::format("{}{}", i == 0 ? " " : ",", lane.cores[i]);
  }
  info_.cores = lane.cores;
  info_.n_threads = lane.n_threads;
  info_.capabilities = kVector;
}

HostLane::~HostLane() = default;

std::unique_ptr<Executable> HostLane::build(const Subgraph& subgraph, plan::Shape shape,
                                            const weights::Store& weights, const Buffers& buffers) {
  check_slice(subgraph, info_);
  const bool is_prompt = shape.phase == plan::Phase::kPrompt;
  const Precision precision = {activations_, is_prompt ? prefill_ : plan::Prefill::kSame,
                               int8_rules_, is_prompt ? attention_ : plan::PromptAttention()};
  const TokenSlice tokens(subgraph);
  std::vector<BoundOp> ops = bind_ops(subgraph, weights, buffers, kernels_, precision);
  for (BoundOp& bound : ops) {
    if (is_prompt && bound.op.kind == model::OpKind::kLinear) {
      bound.product()->strips_together =
          kStripsTogether[arrangement_index(subgraph, bound.op, shape)];
    }
    reserve(bound, tokens.n_rows(shape.n_rows));
  }
  const size_t n_counters = ops.size() * static_cast<size_t>(team_.size());
  if (counters_.size() < n_counters) counters_ = std::vector<ItemCounter>(n_counters);
  const OwnRows own_rows = place_own_rows(subgraph, buffers, &ops);
  reserve_own_rows(own_rows);
  return std::make_unique<HostExecutable>(shape.n_rows, tokens, std::move(ops), own_rows, weights,
                                          buffers);
}

std::span<const char* const> HostLane::arrangements(plan::Shape shape) const {
  const bool has_panels = shape.phase == plan::Phase::kPrompt &&
                          (prefill_ == plan::Prefill::kBf16 || prefill_ == plan::Prefill::kInt8);
  if (!has_panels) return {};
  return kProductArrangements;
}

// Makes room for the forms into which an op brings its inputs and weights.
void HostLane::reserve(const BoundOp& bound, int n_tokens) {
  if (bound.product() != nullptr) reserve_product(bound, n_tokens);
  if (const auto* attention = std::get_if<BoundAttention>(&bound.own)) {
    reserve_stretch(attention_bytes(*attention, n_tokens));
    reserve_heads(*attention);
  }
  if (const ExpertCounts* experts = experts_of(bound)) {
    expert_scratch_length_ =
        std::max(expert_scratch_length_, expert_scratch_length(*experts, n_tokens));
    make_room(static_cast<size_t>(info_.n_threads) * expert_scratch_length_, &expert_scratch_);
  }
}

// Makes room for the lists of a part of sparse attention, for tokens at the end of the context.
void HostLane::reserve_heads(const BoundAttention& attention) {
  if (!is_of_heads(attention.role)) return;
  const size_t bytes =
      static_cast<size_t>(info_.n_threads) * head_list_bytes(attention, attention.areas->stride());
  const size_t n_floats = bytes / sizeof(float);
  if (n_floats > n_attention_parts_) take_parts(n_floats);
}

void HostLane::reserve_product(const BoundOp& bound, int n_tokens) {
  const auto& product = bound.as<BoundProduct>();
  const auto k = static_cast<size_t>(bound.input_width);
  const auto n_rows = static_cast<size_t>(n_tokens);
  if (product.neurons != nullptr) neurons_.reserve(*product.neurons, info_.n_threads);
  reserve_stretch(unpacked_weight_bytes(bound, n_rows));
  // Parts that are tasks of their own keep their rows and lists in the buffers, and need no room
  // here.
  const bool is_divided = product.outliers.role != Role::kWhole;
  if (!is_divided) {
    const size_t n_prepared = n_rows * static_cast<size_t>(std::max(product.experts.n_used, 1));
    make_room(n_prepared * prepared_row_bytes(bound) + kCacheLineBytes, &prepared_);
  }
  const size_t n_scratch =
      std::max(guess_floats(product.guess), product.form == InputForm::kInt8 ? k : 0);
  scratch_floats_ = std::max(scratch_floats_, n_scratch);
  make_room(static_cast<size_t>(info_.n_threads) * scratch_floats_, &scratch_);
  if (product.form != InputForm::kInt8) return;
  if (!product.int8_rule.takes_outliers() || is_divided) return;
  make_room(n_rows, &outlier_counts_);
  if (n_rows * k <= n_outliers_) return;
  n_outliers_ = n_rows * k;
  outliers_ = std::make_unique_for_overwrite<kernels::Outlier[]>(n_outliers_);
}

// Makes room of its own for each worker.
void HostLane::reserve_stretch(size_t bytes) {
  stretch_bytes_ = std::max(stretch_bytes_, bytes);
  if (stretch_bytes_ == 0) return;
  make_room(static_cast<size_t>(info_.n_threads) * stretch_bytes_ + kCacheLineBytes, &stretches_);
}

// Makes room for rows that workers compute for themselves, where there are several.
void HostLane::reserve_own_rows(const OwnRows& rows) {
  if (team_.size() == 1) return;
  own_row_bytes_ = std::max(own_row_bytes_, rows.bytes());
  make_room(static_cast<size_t>(team_.size()) * own_row_bytes_ + kCacheLineBytes, &own_rows_);
}

size_t HostLane::held_bytes() const {
  return prepared_.capacity() + stretches_.capacity() + own_rows_.capacity() +
         outlier_counts_.capacity() * sizeof(uint32_t) + scratch_.capacity() * sizeof(float) +
         expert_scratch_.capacity() * sizeof(int32_t) + counters_.capacity() * sizeof(ItemCounter) +
         (attention_parts_ != nullptr ? n_attention_parts_ * sizeof(float) + kCacheLineBytes : 0) +
         neurons_.bytes();
}

// Makes room for segments and lists of attention, in leaps, so that a growing text asks for memory
// rarely, but never for more than a full context needs. Where the system has no such memory,
// returns what to tell people: a thread of the lane has nobody to throw to.
std::optional<std::string> HostLane::reserve_parts(const BoundOp& bound, const Run& run,
                                                   int n_built) {
  const size_t n_floats = attention_parts_floats(bound, run, team_.size());
  if (n_floats <= n_attention_parts_) return {};
  const auto& attention = bound.as<BoundAttention>();
  const AttentionReach reach = {n_built, static_cast<size_t>(run.kv->shape().limit())};
  const size_t most = most_attention_parts_floats(attention, bound.op.window, reach, team_.size());
  for (const size_t n : {std::max(n_floats, std::min(2 * n_floats, most)), n_floats}) {
    try {
      take_parts(n);
      return {};
    } catch (const std::bad_alloc&) {
      continue;  // what is needed may be there where a leap is not
    }
  }
  return fmt::format(
      "there is no memory for the {:.1f} MB that attention needs with so long a text. Use a "
      "shorter one{}",
      1e-6 * sizeof(float) * static_cast<double>(n_floats),
      takes_lists(attention) ? ", fewer ‹threads›, or ‹attention› full" : " or fewer ‹threads›");
}

// Nothing that these floats hold outlives a run, so they never stand in memory twice.
void HostLane::take_parts(size_t n_floats) {
  attention_parts_.reset();
  n_attention_parts_ = 0;
  attention_parts_ = std::make_unique_for_overwrite<float[]>(n_floats + kFloatsOfLine);
  n_attention_parts_ = n_floats;
}

// Notes how long after the end of the product beside them the last columns were read.
void HostLane::note_shadow_end(const BoundOp& bound, const Run& run) {
  const BoundProduct* const product = bound.product();
  if (product == nullptr || product->outliers.areas == nullptr) return;
  const Role role = product->outliers.role;
  ShadowArea& area = product->outliers.areas->of(run.buffer_set);
  if (role == Role::kProduct) area.product_end_us = RealClock().now_us();
  if (role != Role::kSum || area.reads.empty()) return;
  area.counters.wait_us += std::max(0.0, area.read_end_us - area.product_end_us);
}

void HostLane::submit(const Executable& executable, const Run& run, Completion& completion) {
  const auto& host = static_cast<const HostExecutable&>(executable);
  std::optional<std::string> problem;
  if (host.tokens().is_all()) {
    problem = run_ops(host, run);
  } else {
    const Run own = host.tokens().of(run);
    if (!host.tokens().is_empty(own)) problem = run_ops(host, own);
  }
  weights::ExpertSource* const experts = host.weights().experts();
  if (!problem && experts != nullptr) problem = experts->take_problem();
  if (problem) problem_ = std::move(*problem);
  completion.finished(problem ? Status::kFailed : Status::kDone);
}

// Returns the context of a worker, which computes a single row for itself where others would have
// to wait for it.
OpContext HostLane::with_own_rows(const OpContext& context, const OwnRows& rows, int worker) {
  OpContext mine = context;
  const bool is_one_row = context.run.n_tokens == 1 && context.run.n_outputs <= 1;
  if (!rows.are_there || !is_one_row || team_.n_active() == 1) return mine;
  std::byte* const values =
      at_cache_line(own_rows_.data()) + static_cast<size_t>(worker) * own_row_bytes_;
  mine.own_values = reinterpret_cast<float*>(values);
  mine.prepared = values + rows.n_floats * sizeof(float);
  return mine;
}

// Returns why it cannot run, if there is a reason.
std::optional<std::string> HostLane::run_ops(const HostExecutable& host, const Run& run) {
  const std::vector<BoundOp>& ops = host.ops();
  const size_t n_counters = ops.size() * static_cast<size_t>(team_.size());
  for (size_t i = 0; i < n_counters; ++i) counters_[i].n_begun.store(0, std::memory_order_relaxed);
  if (ops.front().op.kind == model::OpKind::kAttention) {
    std::optional<std::string> problem = reserve_parts(ops.front(), run, host.n_tokens());
    if (problem) return problem;
  }
  TaskBindings* const own = host.bindings(run.buffer_set);
  // Whoever submits a task has waited for the weights that it leases.
  if (own != nullptr) TROIKA_ASSERT(own->acquire(host.weights()));
  const OpContext context = {kernels_,
                             run,
                             team_,
                             host.set_stride() * static_cast<size_t>(run.buffer_set),
                             own,
                             at_cache_line(prepared_.data()),
                             at_cache_line(stretches_.data()),
                             stretch_bytes_,
                             counters_.data(),
                             at_cache_line(attention_parts_.get()),
                             outliers_.get(),
                             outlier_counts_.data(),
                             scratch_.data(),
                             scratch_floats_,
                             expert_scratch_.data(),
                             expert_scratch_length_,
                             &neurons_};
  const auto run_all = [&](int worker) {
    const OpContext mine = with_own_rows(context, host.own_rows(), worker);
    for (size_t i = 0; i < ops.size(); ++i) {
      if (mine.meets_before(ops[i])) team_.barrier().wait();
      run_op(ops[i], mine, static_cast<int>(i), worker);
      if (run.gives_way) give_way();
    }
  };
  team_.run_where_free(run_all, [&] { return waited_for(host.weights()); });
  // Leases are given back before anybody hears that the task has ended.
  if (own != nullptr) own->give_back();
  note_shadow_end(ops.front(), run);
  return {};
}

}  // namespace troika::lanes
