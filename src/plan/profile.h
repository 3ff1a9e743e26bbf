// What was measured on a machine, as plain data: how long each op takes on each lane, how fast
// lanes read, start and hand over, how fast the disk reads. Kept as JSON (docs/profile.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/blueprint.h"
#include "plan/plan.h"
#include "tensor/type.h"

namespace troika::plan {

inline constexpr int kProfileVersion = 2;

// Which machine and which program arithmetic the numbers belong to.
struct MachineIdentity {
  std::string cpu;
  int n_cores = 1;
  std::string features;
  uint64_t memory_bytes = 0;
  std::string kernel;      // of the operating system
  std::string arithmetic;  // kernels and form of the activations: "avx512, q8"

  bool operator==(const MachineIdentity&) const = default;
};

struct ProfileLane {
  std::string name;
  std::vector<int> cores;  // empty: not bound to certain cores
  int n_threads = 1;
  bool is_matrix = false;  // has a matrix unit

  bool operator==(const ProfileLane&) const = default;
};

// One op of a blueprint, as far as its time depends on it.
struct OpShape {
  model::OpKind op = model::OpKind::kLinear;
  // The type of the weight; for attention that of keys and values; kF32 for ops on activations
  // only.
  tensor::Type type = tensor::Type::kF32;
  int n_rows = 0;  // width of the output
  int k = 0;       // width of the input; width of the keys of all heads for attention
  int n_tokens = 0;
  int context = 0;             // attention: positions that the last token sees; 0 for other ops
  int head_dim = 0;            // attention and rope; 0 for other ops
  Phase phase = Phase::kStep;  // of products and attention; kStep for ops that know no other

  auto operator<=>(const OpShape&) const = default;
};

struct OpTime {
  int lane = 0;
  OpShape shape;
  double us = 0.0;      // median, from submission to completion: the start of a task included
  double spread = 0.0;  // distance of the quartiles, as a share of the median
  int n_runs = 0;
  // Where the lane knows several shapes for a product (N8): the fastest, which the other numbers
  // belong to, and how often its time goes into that of the slowest.
  std::string arrangement = {};
  double arrangement_gain = 1.0;
  // The lane builds it for prompts alone, though it is the same in steps. Kept as a refusal.
  bool is_of_prompts_alone = false;
};

// Lanes that read at once, and the rate of each.
struct ReadRate {
  std::vector<int> lanes;
  std::vector<double> gb_s;
};

struct StartTime {
  int lane = 0;
  double us = 0.0;  // a task that does next to nothing
};

// That a lane cannot build such an op, as a device that takes static graphs of prompts alone.
struct Refusal {
  int lane = 0;
  model::OpKind op = model::OpKind::kLinear;
  Phase phase = Phase::kStep;  // of the executable

  auto operator<=>(const Refusal&) const = default;
};

// The time from the end of a task on one lane to the start of the next on another.
struct Handover {
  int from = 0;
  int to = 0;
  double us = 0.0;
};

// One core alone; where cores are alike, so are these.
struct CoreRate {
  int core = 0;
  double gops = 0.0;  // 1e9 multiplications and additions of a product per second
  double gb_s = 0.0;
};

struct DiskRead {
  uint64_t block_bytes = 0;
  uint64_t range_bytes = 0;  // that the reads are spread over
  bool is_random = false;
  int depth = 1;    // reads under way at once
  double us = 0.0;  // of one read, median
  double mb_s = 0.0;
};

struct Storage {
  std::string folder;
  // The page cache was passed by. What lies below (a host, a controller) may still keep blocks.
  bool is_direct = false;
  std::vector<DiskRead> reads;
};

struct Profile {
  MachineIdentity machine;
  std::string taken;          // "2026-01-31T12:00:00Z"
  double load_average = 0.0;  // of the minute before: above 0.1 others worked too
  int n_left_out = 0;         // wanted ops for which there was no time
  std::vector<ProfileLane> lanes;
  std::vector<OpTime> ops;
  std::vector<Refusal> refusals;
  std::vector<StartTime> starts;
  std::vector<ReadRate> bandwidth;
  std::vector<Handover> handovers;
  std::vector<CoreRate> cores;
  std::optional<Storage> storage;

  // Null where it was not measured.
  const OpTime* find(int lane, const OpShape& shape) const;
  double start_us(int lane) const;  // 0 where unknown
  bool refuses(int lane, model::OpKind op, Phase phase) const;
};

// Whether executables of different phases compute the op in different ways.
bool depends_on_phase(model::OpKind op);

// What a lane must move and compute for an op once.
double op_bytes(const OpShape& shape);
double op_flops(const OpShape& shape);

// One line for each measurement.
std::string profile_to_json(const Profile& profile);
// Throws Error that names the file and the field for whatever is wrong with the text.
Profile profile_from_json(const std::string& text, const std::string& path);
Profile load_profile(const std::string& path);

// This machine, without its arithmetic.
MachineIdentity this_machine();

}  // namespace troika::plan
