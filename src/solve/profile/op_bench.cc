#include "solve/profile/op_bench.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>

#include "base/cache_line.h"
#include "base/error.h"
#include "base/median.h"
#include "base/random.h"
#include "solve/profile/one_op.h"
#include "tensor/codec.h"
#include "tensor/strips.h"

namespace troika::solve {
namespace {

using lanes::Status;
using model::OpKind;
using plan::OpShape;

constexpr size_t kPatternElements = 1 << 16;  // a multiple of every block length
constexpr size_t kMatrixAlignment = 64;

bool needs_matrix(OpKind op) { return op == OpKind::kLinear || op == OpKind::kEmbed; }

// Counts the rows of the table that an embedding is measured on: too many for a cache, few enough
// for the arena.
constexpr int kEmbedRows = 4096;

size_t matrix_bytes(const OpShape& shape) {
  if (!needs_matrix(shape.op)) return 0;
  const int n_rows = shape.op == OpKind::kEmbed ? kEmbedRows : shape.n_rows;
  const int row_length = shape.op == OpKind::kEmbed ? shape.n_rows : shape.k;
  return static_cast<size_t>(n_rows) *
         tensor::row_bytes(shape.type, static_cast<size_t>(row_length));
}

// Notes when a task has ended, by the machine's clock.
class TimedEnd : public lanes::Ended {
 public:
  explicit TimedEnd(const Clock& clock) : clock_(clock) {}
  void finished(Status told) override {
    end_us = clock_.now_us();
    Ended::finished(told);
  }
  double end_us = 0.0;

 private:
  const Clock& clock_;
};

double run_us(lanes::Machine& machine, int lane, const lanes::Executable& executable,
              const lanes::Run& run) {
  TimedEnd completion(machine.clock());
  lanes::Lane& worker = *machine.lanes()[static_cast<size_t>(lane)];
  const double start_us = machine.clock().now_us();
  worker.submit(executable, run, completion);
  machine.wait(completion.latch);
  if (completion.status != Status::kDone) {
    throw Error(
        fmt::format("A task failed on the lane '{}' while it was measured.", worker.info().name));
  }
  return completion.end_us - start_us;
}

// Interpolates where the place is not whole. REQUIRES: sorted, not empty.
double quantile(const std::vector<double>& sorted, double share) {
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

// Is the smallest op that every lane has to know.
constexpr OpShape kTiny = {OpKind::kAdd, tensor::Type::kF32, 64, 64, 1, 0, 0};
constexpr int kTinyRuns = 64;  // must be even

// Runs tiny tasks one after the other. The completion of each submits the next.
class Chain : public lanes::Completion {
 public:
  Chain(lanes::Machine& machine, std::vector<int> order, std::vector<const OneOp*> ops,
        std::vector<const lanes::Executable*> executables)
      : machine_(machine),
        order_(std::move(order)),
        ops_(std::move(ops)),
        executables_(std::move(executables)) {}

  // Returns the time from the end of the first task to that of the last.
  double run() {
    submit();
    machine_.wait(latch_);
    if (failed_) throw Error("A task failed while the handover between lanes was measured.");
    return end_us_ - first_end_us_;
  }
  void finished(Status status) override {
    failed_ = failed_ || status != Status::kDone;
    if (at_ == 0) first_end_us_ = machine_.clock().now_us();
    if (++at_ < order_.size()) {
      submit();
      return;
    }
    end_us_ = machine_.clock().now_us();
    latch_.open();
  }

 private:
  void submit() {
    const auto lane = static_cast<size_t>(order_[at_]);
    machine_.lanes()[lane]->submit(*executables_[lane], ops_[lane]->run(), *this);
  }
  lanes::Machine& machine_;
  std::vector<int> order_;
  std::vector<const OneOp*> ops_;
  std::vector<const lanes::Executable*> executables_;
  size_t at_ = 0;
  bool failed_ = false;
  double first_end_us_ = 0.0;
  double end_us_ = 0.0;
  lanes::Latch latch_;
};

}  // namespace

Arena::Arena(size_t bytes) : bytes_(bytes), data_(bytes) {}

void Arena::prepare(tensor::Type type) {
  if (prepared_ == static_cast<int>(type)) return;
  std::vector<float> floats(kPatternElements);
  for (size_t i = 0; i < floats.size(); ++i) {
    floats[i] = static_cast<float>(random_unit(11, i) - 0.5);
  }
  std::vector<std::byte> pattern(tensor::row_bytes(type, kPatternElements));
  tensor::quantize_row(type, floats.data(), pattern.data(), kPatternElements);
  for (size_t at = 0; at < bytes_; at += pattern.size()) {
    std::memcpy(data_.get() + at, pattern.data(), std::min(pattern.size(), bytes_ - at));
  }
  prepared_ = static_cast<int>(type);
}

bool Arena::fits(const OpShape& shape) const {
  return matrix_bytes(shape) + kMatrixAlignment <= bytes_;
}

void Arena::sweep() const {
  unsigned char seen = 0;
  for (size_t at = 0; at < bytes_; at += kCacheLineBytes) {
    seen ^= static_cast<const volatile unsigned char&>(
        reinterpret_cast<const unsigned char*>(data_.get())[at]);
  }
  static_cast<void>(seen);
}

weights::Matrix Arena::take(tensor::Type type, int n_rows, int k) {
  TROIKA_ASSERT(prepared_ == static_cast<int>(type));
  const size_t row_bytes = tensor::row_bytes(type, static_cast<size_t>(k));
  const size_t needed = row_bytes * static_cast<size_t>(n_rows);
  TROIKA_ASSERT(needed <= bytes_);
  // A matrix begins where a block and a cache line begin, as it may in a file.
  const size_t unit = kMatrixAlignment * tensor::type_info(type).block_bytes;
  size_t begin = (next_ + unit - 1) / unit * unit;
  if (begin + needed > bytes_) begin = 0;
  next_ = begin + needed;
  return {type, data_.get() + begin, row_bytes, n_rows, k};
}

namespace {

// Takes what a lane has read out of the cache that cores share; a core that is the lane's alone may
// keep a megabyte of it. The lane's threads fall asleep meanwhile, so a tiny task wakes them.
class Sweep {
 public:
  Sweep(lanes::Machine& machine, int lane, const Arena& arena)
      : machine_(machine),
        lane_(lane),
        arena_(arena),
        tiny_(machine, kTiny, {weights::Matrix{}}),
        executable_(tiny_.build(*machine.lanes()[static_cast<size_t>(lane)], 0)) {}
  void operator()() const {
    arena_.sweep();
    run_us(machine_, lane_, *executable_, tiny_.run());
  }

 private:
  lanes::Machine& machine_;
  int lane_;
  const Arena& arena_;
  OneOp tiny_;
  std::unique_ptr<lanes::Executable> executable_;
};

// Measures an op in one of the lane's arrangements; empty: its first. `sweep` may be null; else it
// comes before each run.
plan::OpTime measure_arrangement(lanes::Machine& machine, int lane, const OpShape& shape, OneOp& op,
                                 size_t n_variants, const std::string& arrangement,
                                 const Patience& patience, const Sweep* sweep) {
  lanes::Lane& worker = *machine.lanes()[static_cast<size_t>(lane)];
  // All are built beforehand, so that runs follow each other as tasks of a pass do. Then the
  // threads of a team stay awake between them.
  std::vector<std::unique_ptr<lanes::Executable>> executables;
  executables.reserve(n_variants);
  const double before_us = machine.clock().now_us();
  for (size_t i = 0; i < n_variants; ++i) executables.push_back(op.build(worker, i, arrangement));
  const double build_us = (machine.clock().now_us() - before_us) / static_cast<double>(n_variants);
  double first_run_us = 0.0;
  std::vector<double> times;
  double spent_us = 0.0;
  int most_runs = patience.most_runs;
  size_t next = 0;
  for (int i = -patience.n_warm; i < most_runs; ++i) {
    const lanes::Executable& executable = *executables[next++ % executables.size()];
    if (sweep != nullptr) (*sweep)();
    const double us = run_us(machine, lane, executable, op.run());
    if (i == -patience.n_warm) first_run_us = us;
    if (i < 0) {
      // In a run that takes so long, the cost of a first run matters little.
      if (us > patience.enough_us) most_runs = std::min(most_runs, patience.least_runs);
      if (us > 10 * patience.enough_us) most_runs = 1;
      continue;
    }
    times.push_back(us);
    spent_us += us;
    if (i + 1 >= patience.least_runs && spent_us >= patience.enough_us) break;
  }
  std::sort(times.begin(), times.end());
  plan::OpTime time;
  time.lane = lane;
  time.shape = shape;
  time.us = quantile(times, 0.5);
  time.spread = time.us > 0.0 ? (quantile(times, 0.75) - quantile(times, 0.25)) / time.us : 0.0;
  time.n_runs = static_cast<int>(times.size());
  time.arrangement = arrangement;
  time.is_of_prompts_alone = op.run().phase != shape.phase;
  const bool is_device = !worker.info().identity.empty();
  if (!is_device || shape.op != OpKind::kLinear || build_us <= 0.0) return time;
  time.preparation = {build_us, 0.0, first_run_us};
  if (!worker.info().keeps_graphs) return time;
  executables.clear();
  const double again_us = machine.clock().now_us();
  executables.push_back(op.build(worker, 0, arrangement));
  time.preparation.rebuild_us = machine.clock().now_us() - again_us;
  return time;
}

plan::OpTime fastest_arrangement(lanes::Machine& machine, int lane, const OpShape& shape, OneOp& op,
                                 size_t n_variants, const Patience& patience,
                                 const Sweep* sweep = nullptr) {
  // A smaller gain is within the noise of a measurement, and the first arrangement is as good.
  constexpr double kWorthwhile = 0.97;
  const std::span<const char* const> arrangements =
      machine.lanes()[static_cast<size_t>(lane)]->arrangements({shape.phase, shape.n_tokens});
  if (shape.op != OpKind::kLinear || arrangements.empty()) {
    return measure_arrangement(machine, lane, shape, op, n_variants, "", patience, sweep);
  }
  plan::OpTime best;
  double slowest_us = 0.0;
  for (const char* const arrangement : arrangements) {
    const plan::OpTime time =
        measure_arrangement(machine, lane, shape, op, n_variants, arrangement, patience, sweep);
    slowest_us = std::max(slowest_us, time.us);
    if (best.arrangement.empty() || time.us < kWorthwhile * best.us) best = time;
  }
  best.arrangement_gain = best.us > 0.0 ? slowest_us / best.us : 1.0;
  return best;
}

}  // namespace

std::vector<plan::OpTime> compare_arrangements(lanes::Machine& machine, int lane,
                                               const std::vector<OpShape>& products) {
  static constexpr std::byte kNothing{};  // an address; nobody reads there
  std::vector<plan::OpTime> times;
  for (const OpShape& shape : products) {
    const size_t row_bytes = tensor::row_bytes(shape.type, static_cast<size_t>(shape.k));
    const weights::Matrix matrix = {shape.type, &kNothing, row_bytes, shape.n_rows, shape.k};
    OneOp op(machine, shape, {matrix}, /*pack_threads=*/0, /*has_values=*/false);
    times.push_back(fastest_arrangement(machine, lane, shape, op, 1, {0, 1, 1, 0.0}));
  }
  return times;
}

plan::OpTime measure_op(lanes::Machine& machine, int lane, const OpShape& shape, Arena& arena,
                        const Patience& patience) {
  const bool is_packed = patience.pack_threads > 0 && shape.phase == plan::Phase::kPrompt;
  // Each run has a weight of its own, which no cache holds. Packing several of them would take
  // long, and so one is swept out of the caches between two runs.
  const int n_matrices = is_packed ? 1 : patience.n_warm + patience.most_runs;
  std::vector<weights::Matrix> matrices(static_cast<size_t>(n_matrices));
  if (needs_matrix(shape.op)) {
    arena.prepare(shape.type);
    const bool is_table = shape.op == OpKind::kEmbed;
    for (weights::Matrix& matrix : matrices) {
      matrix = arena.take(shape.type, is_table ? kEmbedRows : shape.n_rows,
                          is_table ? shape.n_rows : shape.k);
      if (patience.in_strips && !is_table && !is_packed && !tensor::is_float(shape.type)) {
        constexpr int kRows = static_cast<int>(tensor::kStripRows);
        matrix.n_strip_rows = matrix.n_rows / kRows * kRows;
      }
    }
  }
  OneOp op(machine, shape, matrices, is_packed ? patience.pack_threads : 0);
  std::optional<Sweep> sweep;
  if (is_packed && needs_matrix(shape.op)) sweep.emplace(machine, lane, arena);
  return fastest_arrangement(machine, lane, shape, op, matrices.size(), patience,
                             sweep ? &*sweep : nullptr);
}

double measure_start_us(lanes::Machine& machine, int lane, Arena& arena) {
  return measure_op(machine, lane, kTiny, arena, {8, kTinyRuns, kTinyRuns, 1e9}).us;
}

double measure_handover_us(lanes::Machine& machine, int from, int to) {
  OneOp a(machine, kTiny, {weights::Matrix{}});
  OneOp b(machine, kTiny, {weights::Matrix{}});
  std::vector<const OneOp*> ops(machine.lanes().size(), nullptr);
  std::vector<const lanes::Executable*> executables(machine.lanes().size(), nullptr);
  const auto on_from = a.build(*machine.lanes()[static_cast<size_t>(from)], 0);
  const auto on_to = b.build(*machine.lanes()[static_cast<size_t>(to)], 0);
  ops[static_cast<size_t>(from)] = &a;
  ops[static_cast<size_t>(to)] = &b;
  executables[static_cast<size_t>(from)] = on_from.get();
  executables[static_cast<size_t>(to)] = on_to.get();
  const auto chain_us = [&](bool alternates, int only) {
    std::vector<double> times;
    for (int i = 0; i < 5; ++i) {
      std::vector<int> order;
      for (int task = 0; task <= kTinyRuns; ++task) {
        order.push_back(!alternates ? only : task % 2 == 0 ? from : to);
      }
      times.push_back(Chain(machine, order, ops, executables).run());
    }
    return median(std::move(times));
  };
  // A chain to and fro has half as many tasks on each lane as a chain that stays on it.
  const double staying_us = (chain_us(false, from) + chain_us(false, to)) / 2.0;
  return std::max(0.0, (chain_us(true, 0) - staying_us) / kTinyRuns);
}

}  // namespace troika::solve
