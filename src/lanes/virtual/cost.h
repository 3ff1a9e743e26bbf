// How long one op takes on a processor of a virtual phone (V1). Every law stands in
// docs/virtual-phone.md with the section of the paper that describes it.
#pragma once

#include <cstdint>

#include "lanes/virtual/virtual_machine.h"
#include "plan/phones/phone.h"

namespace troika::lanes {

enum class Processor : uint8_t { kCpu, kGpu, kNpu };
// Returns "cpu", "gpu" or "npu".
const char* processor_name(Processor processor);

enum class Arithmetic : uint8_t { kInt8, kFp16 };

// The shape of a product: output (rows, outputs) = input (rows, columns) · weight (outputs,
// columns).
struct Product {
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t outputs = 1;
  Arithmetic arithmetic = Arithmetic::kInt8;
  double weight_bytes = 1.0;  // the memory of one weight, with its part of the scales
  bool has_group_scales = false;
  // Rows laid out as a square, which an NPU takes faster than (rows, 1), the plain form (N8).
  bool has_square_shape = false;
};

// The cores of a CPU lane.
struct Cores {
  double prime = 0, middle = 0, small = 0;

  double count() const { return prime + middle + small; }
  bool operator==(const Cores&) const = default;
};

struct FlashRead {
  int64_t n_requests = 1;
  int64_t request_bytes = 4096;
  bool is_sequential = false;
  int64_t range_bytes = 128 << 20;  // the range over which requests are spread
  bool is_alone = false;            // depth 1: each request waits for the one before
  double core_ghz = 0.0;            // 0: the prime core asks
  bool has_several_cores = false;   // several cores ask at once
};

class CostModel {
 public:
  CostModel(plan::Phone phone, plan::Stack stack);
  // Lets these cores alone be the CPU; other programs have the rest. The cores' share of the CPU's
  // rate is also their share of its bandwidth and power. Throws Error for cores that the phone does
  // not have.
  void use_cores(const Cores& cores);
  // Lets other programs read so much over the bus all the time. Throws Error where nothing is left.
  void share_bus(double taken_gb_s);
  // Returns what share_bus() was told; 0 where other programs read nothing.
  double taken_gb_s() const { return taken_gb_s_; }

  const plan::Phone& phone() const { return phone_; }
  const plan::Stack& stack() const { return stack_; }
  // Returns the cores that are the CPU: by default all prime and middle cores.
  const Cores& used_cores() const { return cores_; }
  // Returns the one core that asks for reads: the fastest that is used, or a small one of the
  // phone.
  Cores asking_core(bool is_large) const;
  double clock_ghz(const Cores& one) const;  // of the kind that `one` has

  // Returns the cost of a product. Without `cores`, the used cores count.
  TaskCost product(Processor processor, const Product& product) const;
  TaskCost product(const Cores& cores, const Product& product) const;
  // Returns the cost of ops that go through their operands once: norms, activations, sums.
  TaskCost pointwise(Processor processor, double bytes) const;
  // Returns the cost of full attention of `rows` queries over `positions` each. `n_kv_heads` 0: as
  // many as heads.
  TaskCost attention(Processor processor, int64_t rows, int64_t positions, int64_t n_heads,
                     int64_t head_dim, int64_t n_kv_heads = 0) const;
  // Return the costs of the parts of sparse attention (S1, S2). On a core, the sum of the first
  // two, and of the third over all kept positions, takes `sparse_attention_share` of full
  // attention's time. Estimates score in int8, and where blocks choose together, blocks of queries
  // by blocks of positions. On the NPU every position counts; on other processors as many as rows
  // see on average.
  TaskCost estimate(Processor processor, int64_t rows, int64_t positions, int64_t n_heads,
                    int64_t head_dim, int64_t block = 1) const;
  TaskCost select(Processor processor, int64_t rows, int64_t positions, int64_t n_heads,
                  int64_t head_dim, int64_t block = 1) const;
  TaskCost exact(Processor processor, int64_t rows, int64_t positions, int64_t n_heads,
                 int64_t head_dim, double share, int64_t block = 1) const;
  // Returns the cost of the int8 estimate of scores on the NPU, for heads that share a graph (S1,
  // S5).
  TaskCost attention_estimate(int64_t rows, int64_t positions, int64_t n_heads,
                              int64_t head_dim) const;
  // Returns the time of sparse attention on a CPU core as a share of that of full attention (S2):
  // estimate, top-k, and the exact part over `ratio` of the positions.
  double sparse_attention_share(double ratio) const;

  double flash_us(const FlashRead& read) const;
  // Returns how much of the bus flash needs while it reads in a row.
  double flash_gb_s() const;
  // Returns the time of a handover from one processor to another, in executables of a phase. It is
  // fast only where the stack has fast handovers.
  double handover_us(bool is_fast, Processor from, Processor to, plan::Phase phase) const;
  // Returns how long a core polls before a handover, and the core that does. The thread that waits
  // sleeps for the time that it expects but for the shortest sleep, which may last too long.
  double polling_us(bool is_fast) const;
  Cores polling_core() const;
  // Returns the additional time of a task on a processor whose queue ran empty.
  double restart_us(bool is_fast, Processor processor) const;
  // Returns the arithmetic of products on a processor: what the stack's system computes with there.
  Arithmetic arithmetic(Processor processor, plan::Phase phase) const;
  // Returns the time it takes to make the graphs for a prompt of a new length.
  double graph_us(int64_t n_tokens) const;

  // Return the GB/s of a processor alone, and of the bus that lanes of these processors share.
  double read_gb_s(Processor processor) const;
  Bus bus(const std::vector<Processor>& lanes) const;
  double power_w(Processor processor) const;
  double wait_w(Processor processor) const;  // power while the processor waits between two tasks
  double core_w(const Cores& cores) const;   // power of some cores that are busy

 private:
  TaskCost cpu_product(const Product& product, double relative_rate,
                       double share_of_bandwidth) const;
  TaskCost gpu_product(const Product& product) const;
  TaskCost npu_product(const Product& product) const;
  Cores large_cores() const;
  // Returns the rate of these cores over that of all large cores: 1 or less.
  double share_of_cpu(const Cores& cores) const;
  double whole_gb_s(Processor processor) const;
  double pipes_ghz(const Cores& cores) const;
  // Returns the rate of the NPU: phones are scaled from the 8 Gen 3, stacks from the phone they
  // were measured on.
  double npu_rate() const;

  plan::Phone phone_;
  plan::Stack stack_;
  Cores cores_;
  double taken_gb_s_ = 0.0;
};

}  // namespace troika::lanes
