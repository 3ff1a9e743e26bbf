// How long one op takes on a processor of a virtual phone (V1). Every law stands in
// docs/virtual-phone.md with the section of the paper that describes it.
#pragma once

#include <cstdint>

#include "lanes/virtual/virtual_machine.h"
#include "plan/phones/phone.h"

namespace troika::lanes {

enum class Processor : uint8_t { kCpu, kGpu, kNpu };
// "cpu", "gpu", "npu".
const char* processor_name(Processor processor);

enum class Arithmetic : uint8_t { kInt8, kFp16 };

// output (rows, outputs) = input (rows, columns) · weight (outputs, columns)
struct Product {
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t outputs = 1;
  Arithmetic arithmetic = Arithmetic::kInt8;
  double weight_bytes = 1.0;  // of one weight in memory, scales counted
  bool has_group_scales = false;
  // Rows laid out as a square, which an NPU takes faster than (rows, 1), the plain form (N8).
  bool has_square_shape = false;
};

// Which cores a CPU lane has.
struct Cores {
  double prime = 0, middle = 0, small = 0;
};

struct FlashRead {
  int64_t n_requests = 1;
  int64_t request_bytes = 4096;
  bool is_sequential = false;
  int64_t range_bytes = 128 << 20;  // that the requests are spread over
  bool is_alone = false;            // depth 1: each waits for the one before
  double core_ghz = 0.0;            // 0: of the prime core
  bool has_several_cores = false;   // that ask at once
};

class CostModel {
 public:
  CostModel(plan::Phone phone, plan::Stack stack);
  // The CPU is these cores alone; other programs have the rest. What they reach of its bandwidth
  // and take of its power is their part of its rate. Throws Error for cores that the phone has not.
  void use_cores(const Cores& cores);
  // Other programs read so much over the bus all the time. Throws Error where nothing is left.
  void share_bus(double taken_gb_s);

  const plan::Phone& phone() const { return phone_; }
  const plan::Stack& stack() const { return stack_; }

  // Where no `cores` are given, the used ones count: by default all prime and middle cores.
  TaskCost product(Processor processor, const Product& product) const;
  TaskCost product(const Cores& cores, const Product& product) const;
  // Ops that go through their operands once: norms, activations, sums.
  TaskCost pointwise(Processor processor, double bytes) const;
  // Full attention of `rows` queries over `positions` each. `n_kv_heads` 0: as many as heads.
  TaskCost attention(Processor processor, int64_t rows, int64_t positions, int64_t n_heads,
                     int64_t head_dim, int64_t n_kv_heads = 0) const;
  // The parts of sparse attention (S1, S2). The sum of the first two and of the last over all kept
  // positions is what `sparse_attention_share` of full attention takes on a core.
  // The scores in int8, of blocks of positions by blocks of queries where those choose together. On
  // the NPU every position counts, on other processors those that rows see on average.
  TaskCost estimate(Processor processor, int64_t rows, int64_t positions, int64_t n_heads,
                    int64_t head_dim, int64_t block = 1) const;
  TaskCost select(Processor processor, int64_t rows, int64_t positions, int64_t n_heads,
                  int64_t head_dim, int64_t block = 1) const;
  TaskCost exact(Processor processor, int64_t rows, int64_t positions, int64_t n_heads,
                 int64_t head_dim, double share, int64_t block = 1) const;
  // The int8 estimate of the scores on the NPU, heads of one graph together (S1, S5).
  TaskCost attention_estimate(int64_t rows, int64_t positions, int64_t n_heads,
                              int64_t head_dim) const;
  // Time of sparse attention on a CPU core over that of full attention (S2): estimate and top-k,
  // and the exact part over `ratio` of the positions.
  double sparse_attention_share(double ratio) const;

  double flash_us(const FlashRead& read) const;
  // What flash needs of the bus while it reads in a row.
  double flash_gb_s() const;
  // From one processor to another, in executables of a phase. Fast only where the stack has that.
  double handover_us(bool is_fast, Processor from, Processor to, plan::Phase phase) const;
  // More, for a processor whose queue ran empty.
  double restart_us(bool is_fast, Processor processor) const;
  // The arithmetic of products on a processor: what the stack's system computes with there.
  Arithmetic arithmetic(Processor processor, plan::Phase phase) const;
  // To make the graphs for a prompt that has none.
  double graph_us(int64_t n_tokens) const;

  // GB/s of a processor alone, and the bus that lanes of these processors share.
  double read_gb_s(Processor processor) const;
  Bus bus(const std::vector<Processor>& lanes) const;
  double power_w(Processor processor) const;
  double wait_w(Processor processor) const;  // between two tasks

 private:
  TaskCost cpu_product(const Product& product, double relative_rate,
                       double share_of_bandwidth) const;
  TaskCost gpu_product(const Product& product) const;
  TaskCost npu_product(const Product& product) const;
  Cores large_cores() const;
  const Cores& used_cores() const { return cores_; }
  // Returns the rate of these cores over that of all large cores: 1 or less.
  double share_of_cpu(const Cores& cores) const;
  double whole_gb_s(Processor processor) const;
  double pipes_ghz(const Cores& cores) const;
  // Phones are scaled from the 8 Gen 3, stacks from what they were measured on.
  double npu_rate() const;

  plan::Phone phone_;
  plan::Stack stack_;
  Cores cores_;
  double taken_gb_s_ = 0.0;
};

}  // namespace troika::lanes
