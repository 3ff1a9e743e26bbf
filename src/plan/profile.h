// What was measured on a machine, as plain data: how long each op takes on each lane, how fast
// lanes read, start and hand over, how fast the disk reads. Profiles are kept as JSON
// (docs/profile.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/blueprint.h"
#include "plan/plan.h"
#include "tensor/type.h"

namespace troika::plan {

inline constexpr int kProfileVersion = 3;
inline constexpr uint64_t kMostProfileBytes = 64u << 20;  // of a file
// Says what to do about a profile that lacks something, where this machine keeps it.
inline constexpr const char* kMeasureAgain = "Measure again with 'troika profile --again'.";

// Says which machine and which arithmetic of the program the numbers belong to.
struct MachineIdentity {
  std::string cpu;
  int n_cores = 1;
  std::string features;
  uint64_t memory_bytes = 0;
  std::string kernel;      // names the operating system's kernel
  std::string arithmetic;  // names kernels and the form of activations: "avx512, q8"

  bool operator==(const MachineIdentity&) const = default;
};

struct ProfileLane {
  std::string name;
  std::vector<int> cores;  // empty: the lane is not bound to certain cores
  int n_threads = 1;
  bool is_matrix = false;  // says that the lane has a matrix unit
  // Says which device with which version of which driver it is; empty for cores, and in profiles
  // that did not say so yet.
  std::string identity = {};

  bool operator==(const ProfileLane&) const = default;
};

// What the time of an op depends on.
struct OpShape {
  model::OpKind op = model::OpKind::kLinear;
  // The type of the weight; for attention that of keys and values; kF32 for ops without either.
  tensor::Type type = tensor::Type::kF32;
  int n_rows = 0;  // the width of the output
  int k = 0;       // the width of the input; for attention the width of the keys of all heads
  int n_tokens = 0;
  int context = 0;   // for attention: the positions that the last token sees; 0 for other ops
  int head_dim = 0;  // for attention and rope; 0 for other ops
  // Counts for products and attention; kStep for ops that compute alike in both phases.
  Phase phase = Phase::kStep;

  auto operator<=>(const OpShape&) const = default;
};

// What a product costs a device before it runs as fast as later: a static runtime compiles a graph
// of it, or imports a kept one. 0: not measured, as on cores, which need no time for it.
struct PreparationTime {
  double build_us = 0.0;      // the longest of the times that it was built
  double rebuild_us = 0.0;    // the shortest of those from what was kept; 0: nothing is kept
  double first_run_us = 0.0;  // the first run of what was built

  bool operator==(const PreparationTime&) const = default;
};

struct OpTime {
  int lane = 0;
  OpShape shape;
  // The median from submission to completion: it includes the start of a task.
  double us = 0.0;
  double spread = 0.0;  // the distance of the quartiles, as a share of the median
  int n_runs = 0;
  // The fastest shape of those that the lane knows for a product (N8). The other numbers belong to
  // it. Empty: the lane knows one shape only.
  std::string arrangement = {};
  double arrangement_gain = 1.0;  // the slowest shape's time over that of the fastest
  PreparationTime preparation = {};
  // Says that the lane builds the op for prompts alone, though it would be the same in steps. A
  // file keeps this as a refusal.
  bool is_of_prompts_alone = false;
  // The load when the op was measured, if more wanted to run than there are cores, so that the time
  // may be too long; 0: no more did.
  double busy_load = 0.0;
};

// Lanes that read at the same time, and the rate of each.
struct ReadRate {
  std::vector<int> lanes;
  std::vector<double> gb_s;
};

struct StartTime {
  int lane = 0;
  double us = 0.0;  // times a task that does next to nothing
};

// Says that a lane cannot build an op in a phase. A device that takes static graphs of prompts
// alone refuses others.
struct RefusedOp {
  int lane = 0;
  model::OpKind op = model::OpKind::kLinear;
  Phase phase = Phase::kStep;  // the executable's phase

  auto operator<=>(const RefusedOp&) const = default;
};

// The time from the end of a task on one lane to the start of the next on another.
struct Handover {
  int from = 0;
  int to = 0;
  double us = 0.0;
};

// The rates of one core that works alone. Cores that are alike have the same rates.
struct CoreRate {
  int core = 0;
  double gops = 0.0;  // 1e9 multiplications and additions of a product per second
  double gb_s = 0.0;
};

struct DiskRead {
  uint64_t block_bytes = 0;
  uint64_t range_bytes = 0;  // the range of the file that the reads are spread over
  bool is_random = false;
  int depth = 1;    // counts reads that are under way at once
  double us = 0.0;  // the median time of one read
  double mb_s = 0.0;
};

struct Storage {
  std::string folder;
  // Says that reads passed by the page cache. What lies below it (a host, a controller) may still
  // keep blocks.
  bool is_direct = false;
  std::vector<DiskRead> reads;
};

struct Profile {
  MachineIdentity machine;
  std::string taken;  // "2026-01-31T12:00:00Z"
  // The load of the minute before, of ops that were measured at several times the largest: above
  // 0.1, others worked too.
  double load_average = 0.0;
  int n_left_out = 0;  // counts ops that were wanted but for which there was no time
  int n_measured = 0;  // counts ops that were measured just now; no file has it
  std::vector<ProfileLane> lanes;
  std::vector<OpTime> ops;
  std::vector<RefusedOp> refusals;
  std::vector<StartTime> starts;
  std::vector<ReadRate> bandwidth;
  std::vector<Handover> handovers;
  std::vector<CoreRate> cores;
  std::optional<Storage> storage;
  std::string advice = kMeasureAgain;  // ends errors about what is missing; no file has it

  // Returns null where the op was not measured on the lane.
  const OpTime* find(int lane, const OpShape& shape) const;
  double start_us(int lane) const;  // 0 where unknown
  bool refuses(int lane, model::OpKind op, Phase phase) const;
};

// Says whether executables of different phases compute the op in different ways.
bool depends_on_phase(model::OpKind op);

// Return what a lane must move and compute to run an op once.
double op_bytes(const OpShape& shape);
double op_flops(const OpShape& shape);

// Returns JSON with one line for each measurement.
std::string profile_to_json(const Profile& profile);
// Throws Error that names the file and the field for whatever is wrong with the text, and ends with
// the advice, which the profile takes too.
Profile profile_from_json(const std::string& text, const std::string& path,
                          const std::string& advice = kMeasureAgain);
// Reads a profile that somebody names. What is kept of this machine is not measured into it.
Profile load_profile(const std::string& path);

// Identifies this machine, without its arithmetic.
MachineIdentity this_machine();

}  // namespace troika::plan
