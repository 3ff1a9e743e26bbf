#include "lanes/virtual/cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/units.h"

namespace troika::lanes {
namespace {

constexpr double kGiga = 1e9;
constexpr double kActivationBytes = 2.0;  // ops hand on half floats
constexpr double kUnhurtRangeBytes = 128.0 * (1 << 20);

double operations(double rows, double columns, double outputs) {
  return 2.0 * rows * columns * outputs;
}

double weights(const Product& p) {
  return static_cast<double>(p.columns) * static_cast<double>(p.outputs);
}

double operand_bytes(const Product& p) {
  const auto rows = static_cast<double>(p.rows);
  const double activations = rows * static_cast<double>(p.columns + p.outputs);
  return weights(p) * p.weight_bytes + activations * kActivationBytes;
}

double round_up(int64_t size, double width) {
  return std::ceil(static_cast<double>(size) / width) * width;
}

void check(const Product& p) {
  TROIKA_ASSERT(p.rows > 0 && p.columns > 0 && p.outputs > 0 && p.weight_bytes > 0.0);
}

}  // namespace

const char* processor_name(Processor processor) {
  switch (processor) {
    case Processor::kCpu:
      return "cpu";
    case Processor::kGpu:
      return "gpu";
    case Processor::kNpu:
      break;
  }
  return "npu";
}

// Returns the arithmetic of products. H §5.1: the NPU of this paper takes 4-bit weights with half
// floats in prompts only, and its integer unit in generation (K11).
Arithmetic CostModel::arithmetic(Processor processor, plan::Phase phase) const {
  if (processor == Processor::kGpu) return Arithmetic::kFp16;
  if (processor == Processor::kCpu || stack_.npu.is_float < 0.5) return Arithmetic::kInt8;
  const bool is_step = phase == plan::Phase::kStep;
  return is_step && stack_.npu.steps_in_int8 >= 0.5 ? Arithmetic::kInt8 : Arithmetic::kFp16;
}

CostModel::CostModel(plan::Phone phone, plan::Stack stack)
    : phone_(std::move(phone)), stack_(std::move(stack)), cores_(large_cores()) {}

void CostModel::use_cores(const Cores& cores) {
  const auto& cpu = phone_.cpu;
  const bool is_there = cores.prime <= cpu.prime.count && cores.middle <= cpu.middle.count &&
                        cores.small <= cpu.small.count;
  if (!is_there || cores.count() < 1) {
    throw UsageError(fmt::format(
        "‹phone-cores› asks for {} prime, {} middle and {} small cores, and {} has {}, {} and {}.",
        cores.prime, cores.middle, cores.small, phone_.name, cpu.prime.count.value,
        cpu.middle.count.value, cpu.small.count.value));
  }
  cores_ = cores;
}

void CostModel::share_bus(double taken_gb_s) {
  if (!(taken_gb_s >= 0.0)) {
    throw UsageError(
        fmt::format("‹bus-taken› {} makes no sense; it is a rate in GB/s, 0 or more.", taken_gb_s));
  }
  if (taken_gb_s >= phone_.memory.reached_gb_s) {
    throw UsageError(
        fmt::format("‹bus-taken› {} GB/s leaves nothing of the {} GB/s that the bus of {} reaches.",
                    taken_gb_s, phone_.memory.reached_gb_s.value, phone_.name));
  }
  taken_gb_s_ = taken_gb_s;
}

double CostModel::share_of_cpu(const Cores& cores) const {
  return std::min(1.0, pipes_ghz(cores) / pipes_ghz(large_cores()));
}

double CostModel::npu_rate() const {
  // A paper may have measured the 8 Gen 2 itself, and differ from the parts' specifications (K19).
  if (stack_.npu.rate_8gen2 > 0.0 && phone_.name == "8gen2") return stack_.npu.rate_8gen2;
  return phone_.npu.relative_rate * stack_.npu.rate_8gen3;
}

Cores CostModel::large_cores() const {
  return {phone_.cpu.prime.count, phone_.cpu.middle.count, 0};
}

Cores CostModel::asking_core(bool is_large) const {
  if (is_large && cores_.prime > 0) return {1, 0, 0};
  if (is_large && cores_.middle > 0) return {0, 1, 0};
  return {0, 0, 1};
}

double CostModel::clock_ghz(const Cores& one) const {
  const auto& cpu = phone_.cpu;
  return one.prime > 0    ? cpu.prime.clock_ghz
         : one.middle > 0 ? cpu.middle.clock_ghz
                          : cpu.small.clock_ghz;
}

double CostModel::pipes_ghz(const Cores& cores) const {
  const auto& cpu = phone_.cpu;
  return cores.prime * cpu.prime.clock_ghz * cpu.prime.vector_pipes +
         cores.middle * cpu.middle.clock_ghz * cpu.middle.vector_pipes +
         cores.small * cpu.small.clock_ghz * cpu.small.vector_pipes;
}

TaskCost CostModel::product(Processor processor, const Product& product) const {
  check(product);
  if (processor == Processor::kGpu) return gpu_product(product);
  if (processor == Processor::kNpu) return npu_product(product);
  return this->product(used_cores(), product);
}

TaskCost CostModel::product(const Cores& cores, const Product& product) const {
  check(product);
  // All large cores together reach the bandwidth of the CPU; fewer cores are assumed to reach their
  // share of it.
  return cpu_product(product, pipes_ghz(cores) / stack_.cpu.measured_pipes_ghz,
                     share_of_cpu(cores));
}

// Takes the time of the operations at a rate, or of the bytes at a bandwidth, whichever is longer.
// Half floats take twice the time of bytes.
TaskCost CostModel::cpu_product(const Product& p, double relative_rate,
                                double share_of_bandwidth) const {
  TROIKA_ASSERT(relative_rate > 0.0);
  const double slower = p.arithmetic == Arithmetic::kFp16 ? 2.0 : 1.0;
  const double ops = operations(static_cast<double>(p.rows), static_cast<double>(p.columns),
                                static_cast<double>(p.outputs));
  const double bytes = operand_bytes(p);
  const double gb_s = whole_gb_s(Processor::kCpu) * share_of_bandwidth;
  const double compute_us = slower * ops / (stack_.cpu.int8_gops * relative_rate * kGiga) * kUsPerS;
  return {stack_.cpu.launch_us, std::max(compute_us, bytes / (gb_s * kBytesPerUsOfGbPerS)), bytes};
}

// H §3.1: time is linear in the rows, then flat. Times of loading weights and of arithmetic add up,
// so that the rate grows with the rows until arithmetic dominates.
TaskCost CostModel::gpu_product(const Product& p) const {
  const double rate = phone_.gpu.relative_rate;
  double us = operations(static_cast<double>(p.rows), static_cast<double>(p.columns),
                         static_cast<double>(p.outputs)) /
              (stack_.gpu.tflops * rate * 1e12) * kUsPerS;
  if (stack_.gpu.weights_g_s > 0.0) {
    us += weights(p) / (stack_.gpu.weights_g_s * rate * kGiga) * kUsPerS;
  }
  const double bytes = operand_bytes(p);
  // Kernels of products read only for a part of their time (P §2.3.1). The paper prints this part
  // for one row. It is taken for any number of rows, or else two rows would be faster than one.
  const double gb_s = read_gb_s(Processor::kGpu) * stack_.gpu.matvec_share;
  us = std::max(us, bytes / (gb_s * kBytesPerUsOfGbPerS));
  return {stack_.gpu.submit_us, us, bytes};
}

// H §3.2. Stages: sizes are rounded up to the array. Order and shape: the operand that stands in
// the array is used again by each row that streams through, so the rate falls where the streamed
// operand has few rows for its number of columns.
TaskCost CostModel::npu_product(const Product& p) const {
  const auto& npu = stack_.npu;
  const double width = phone_.npu.array_width;
  const double rows = round_up(p.rows, npu.row_step);
  const double columns = round_up(p.columns, width);
  const double outputs = round_up(p.outputs, width);
  const bool is_int8 = p.arithmetic == Arithmetic::kInt8;
  const double tops = is_int8 ? npu.int8_tops : npu.fp16_tflops;
  const double weights_g_s = is_int8 ? npu.int8_weights_g_s : npu.fp16_weights_g_s;
  const double streamed_rows = npu.is_permuted >= 0.5 ? outputs : rows;
  const double share =
      std::clamp(std::pow(streamed_rows / (npu.ideal_ratio * columns), npu.shape_power.value),
                 npu.least_share.value, 1.0);
  double us = operations(rows, columns, outputs) / (tops * npu_rate() * share * 1e12) * kUsPerS;
  // Rows laid out as a square are multiplied faster; loading weights and starting take as long as
  // before (N8).
  if (p.has_square_shape) us /= npu.thin_shape_factor;
  if (npu.reads_first >= 0.5) {
    us += weights(p) * p.weight_bytes / (read_gb_s(Processor::kNpu) * kBytesPerUsOfGbPerS);
  }
  if (weights_g_s > 0.0) us += columns * outputs / (weights_g_s * npu_rate() * kGiga) * kUsPerS;
  double fixed_us = npu.launch_us;
  // The paper's factor applies to the whole time (N §2.3).
  if (p.has_group_scales) {
    us *= npu.per_group_factor;
    fixed_us *= npu.per_group_factor;
  }
  return {fixed_us, us, operand_bytes(p)};
}

TaskCost CostModel::pointwise(Processor processor, double bytes) const {
  switch (processor) {
    case Processor::kCpu:
      return {0.0, 0.0, bytes};
    case Processor::kGpu:
      return {stack_.gpu.submit_us, 0.0, bytes};
    case Processor::kNpu:
      return {stack_.npu.launch_us, 0.0, bytes};
  }
  return {};
}

TaskCost CostModel::attention(Processor processor, int64_t rows, int64_t positions, int64_t n_heads,
                              int64_t head_dim, int64_t n_kv_heads) const {
  const double heads = static_cast<double>(n_heads);
  const double kv_heads = n_kv_heads > 0 ? static_cast<double>(n_kv_heads) : heads;
  const double ops = 2.0 * heads *
                     operations(static_cast<double>(rows), static_cast<double>(head_dim),
                                static_cast<double>(positions));
  // Counts keys and values; queries and outputs are few beside them.
  const double bytes =
      2.0 * kv_heads * static_cast<double>(positions * head_dim) * kActivationBytes;
  switch (processor) {
    case Processor::kCpu: {
      const double rate = pipes_ghz(used_cores()) / stack_.cpu.measured_pipes_ghz;
      return {0.0, ops / (stack_.cpu.vector_gflops * rate * kGiga) * kUsPerS, bytes};
    }
    case Processor::kGpu:
      return {stack_.gpu.submit_us,
              ops / (stack_.gpu.tflops * phone_.gpu.relative_rate * 1e12) * kUsPerS, bytes};
    case Processor::kNpu: {
      TaskCost cost = attention_estimate(rows, positions, n_heads, head_dim);
      // The scores, then the sum of values.
      cost.compute_us *= 2.0 + stack_.attention.softmax_share;
      cost.bytes = bytes;
      return cost;
    }
  }
  return {};
}

TaskCost CostModel::attention_estimate(int64_t rows, int64_t positions, int64_t n_heads,
                                       int64_t head_dim) const {
  const double width = phone_.npu.array_width;
  const double ops =
      static_cast<double>(n_heads) *
      operations(round_up(rows, width), round_up(head_dim, width), round_up(positions, width));
  const double us = ops / (stack_.attention.estimate_tops * npu_rate() * 1e12) * kUsPerS;
  return {stack_.attention.launch_us, us, static_cast<double>(n_heads * positions * head_dim)};
}

// Counts only the products of queries and keys that choose. Where blocks choose, pooling costs
// little beside them.
TaskCost CostModel::estimate(Processor processor, int64_t rows, int64_t positions, int64_t n_heads,
                             int64_t head_dim, int64_t block) const {
  if (processor == Processor::kNpu) {
    return attention_estimate((rows + block - 1) / block, (positions + block - 1) / block, n_heads,
                              head_dim);
  }
  TaskCost cost = attention(processor, rows, positions, n_heads, head_dim);
  const auto& of = stack_.attention;
  const auto pairs = static_cast<double>(block * block);
  cost.compute_us *= std::max(0.0, of.estimate_share - of.select_share) / pairs;
  const auto values = static_cast<double>((rows + positions) * head_dim * n_heads);
  cost.bytes = values * kActivationBytes;
  return cost;
}

// Looks at every score.
TaskCost CostModel::select(Processor processor, int64_t rows, int64_t positions, int64_t n_heads,
                           int64_t head_dim, int64_t block) const {
  TaskCost cost = attention(processor, rows, positions, n_heads, head_dim);
  const auto pairs = static_cast<double>(block * block);
  cost.compute_us *= stack_.attention.select_share / pairs;
  cost.bytes = static_cast<double>(rows * positions * n_heads) * kActivationBytes / pairs;
  return cost;
}

// Attends to chosen positions. Gathering single positions takes longer than their share of full
// attention.
TaskCost CostModel::exact(Processor processor, int64_t rows, int64_t positions, int64_t n_heads,
                          int64_t head_dim, double share, int64_t block) const {
  TaskCost cost = attention(processor, rows, positions, n_heads, head_dim);
  const double each = block > 1 ? 1.0 : stack_.attention.exact_share.value;
  cost.compute_us *= share * each;
  cost.bytes *= share;
  return cost;
}

double CostModel::sparse_attention_share(double ratio) const {
  return stack_.attention.estimate_share + ratio * stack_.attention.exact_share;
}

// P §2.3.2. A request costs cycles of the core that asks, and time on the one queue of the device.
double CostModel::flash_us(const FlashRead& read) const {
  const auto& flash = stack_.flash;
  const double ghz = read.core_ghz > 0.0 ? read.core_ghz : phone_.cpu.prime.clock_ghz.value;
  const double relative = phone_.flash.relative_rate;
  double us = flash.kcycles_per_request / ghz;
  const double gb_s = read.is_sequential ? flash.sequential_gb_s : flash.random_gb_s;
  us += static_cast<double>(read.request_bytes) / (gb_s * relative * kBytesPerUsOfGbPerS);
  if (!read.is_sequential) {
    const double doublings =
        std::log2(std::max(1.0, static_cast<double>(read.range_bytes) / kUnhurtRangeBytes));
    us += flash.range_us * doublings / relative;
  }
  if (read.is_alone) us += flash.latency_us / relative;
  if (read.has_several_cores) us /= 1.0 - flash.several_cores_share;
  return us * static_cast<double>(read.n_requests);
}

double CostModel::flash_gb_s() const {
  return stack_.flash.sequential_gb_s * phone_.flash.relative_rate;
}

// H §4.2. An ordinary handover copies into memory of the GPU and waits for it with a call of the
// system. A fast one polls a flag in shared memory. In prompts the NPU has most of the work, so the
// next kernel of the GPU is submitted when the NPU has ended. In generation it is submitted before
// that.
double CostModel::handover_us(bool is_fast, Processor from, Processor to, plan::Phase phase) const {
  const auto& handover = stack_.handover;
  const bool is_to_gpu = to == Processor::kGpu;
  if (!is_fast || handover.is_ordinary >= 0.5) {
    return is_to_gpu ? std::max(handover.sync_us, stack_.gpu.copy_us) : handover.sync_us.value;
  }
  const bool is_npu_first =
      phase == plan::Phase::kPrompt && from == Processor::kNpu && to == Processor::kGpu;
  return handover.poll_us + (is_npu_first ? handover.npu_first_us : handover.gpu_first_us);
}

double CostModel::polling_us(bool is_fast) const {
  const auto& handover = stack_.handover;
  return is_fast && handover.is_ordinary < 0.5 ? handover.sleep_us + handover.poll_us : 0.0;
}

Cores CostModel::polling_core() const {
  if (phone_.cpu.small.count >= 1) return {0, 0, 1};
  return phone_.cpu.middle.count >= 1 ? Cores{0, 1, 0} : Cores{1, 0, 0};
}

// The submission behind a fast handover is the same event as the restart of a queue that ran empty,
// so it is not counted twice.
double CostModel::restart_us(bool is_fast, Processor processor) const {
  const bool is_ordinary = !is_fast || stack_.handover.is_ordinary >= 0.5;
  return processor == Processor::kGpu && is_ordinary ? stack_.gpu.restart_us.value : 0.0;
}

double CostModel::graph_us(int64_t n_tokens) const {
  const auto& graph = stack_.graph;
  return 1e3 * (graph.create_ms + graph.optimise_ms + graph.prepare_ms +
                graph.prepare_ms_per_token * static_cast<double>(n_tokens));
}

double CostModel::read_gb_s(Processor processor) const {
  const double share = processor == Processor::kCpu ? share_of_cpu(used_cores()) : 1.0;
  return whole_gb_s(processor) * share;
}

double CostModel::whole_gb_s(Processor processor) const {
  const auto& memory = phone_.memory;
  const auto choose = [&](double of_stack, double of_phone) {
    return of_stack > 0.0 ? of_stack * memory.relative_rate : of_phone;
  };
  switch (processor) {
    case Processor::kCpu:
      return choose(stack_.cpu.read_gb_s, memory.cpu_gb_s);
    case Processor::kGpu:
      return choose(stack_.gpu.read_gb_s, memory.gpu_gb_s);
    case Processor::kNpu:
      return choose(stack_.npu.read_gb_s, memory.npu_gb_s);
  }
  return 0.0;
}

Bus CostModel::bus(const std::vector<Processor>& lanes) const {
  Bus bus;
  bus.total_gb_s = phone_.memory.reached_gb_s - taken_gb_s_;
  for (const Processor processor : lanes) bus.lane_gb_s.push_back(read_gb_s(processor));
  return bus;
}

double CostModel::power_w(Processor processor) const {
  switch (processor) {
    case Processor::kCpu:
      return core_w(used_cores());
    case Processor::kGpu:
      return phone_.power.gpu_w;
    case Processor::kNpu:
      return phone_.power.npu_w;
  }
  return 0.0;
}

double CostModel::core_w(const Cores& cores) const {
  return phone_.power.cpu_w * share_of_cpu(cores);
}

double CostModel::wait_w(Processor processor) const {
  switch (processor) {
    case Processor::kCpu:
      return phone_.power.cpu_wait_w * share_of_cpu(used_cores());
    case Processor::kGpu:
      return phone_.power.gpu_wait_w;
    case Processor::kNpu:
      return phone_.power.npu_wait_w;
  }
  return 0.0;
}

}  // namespace troika::lanes
