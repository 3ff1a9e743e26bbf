// Models, plans and made-up times on which searches of cuts are tested.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "forge/hollow.h"
#include "gguf/file.h"
#include "model/blueprint.h"
#include "model/known.h"
#include "plan/plan.h"
#include "plan/profile.h"
#include "solve/cuts/solve_cuts.h"
#include "solve/time_model.h"
#include "weights/store.h"

namespace troika::solve {

// A sanitizer takes ten times as long, and looks at memory, which all seeds use alike.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kOfSeeds = 8;  // one of so many is tried
#else
inline constexpr int kOfSeeds = 1;
#endif

// Lanes whose times follow from a few random numbers: a start, a rate that goes in stages of rows
// and tokens, a bandwidth for a lane that reads alone, and one for lanes that read together.
class RandomTimes : public TimeModel {
 public:
  RandomTimes(uint64_t seed, int n_lanes, const weights::Store& weights);
  double task_us(int lane, const lanes::Subgraph& subgraph, TaskShape shape, int) const override;
  double handover_us(int from, int to) const override { return from == to ? 0.0 : handover_us_; }
  double shared_us(int lane, std::span<const int> lanes, const lanes::Subgraph& subgraph,
                   TaskShape shape, int) const override;

 private:
  struct LaneLaw {
    double start_us, flops_per_us, bytes_per_us, stage, share_together;
  };
  void each_op(const lanes::Subgraph& subgraph, plan::Shape shape,
               const std::function<void(const plan::OpShape&)>& take) const;

  const weights::Store& weights_;
  std::vector<LaneLaw> lanes_;
  double handover_us_ = 0.0;
};

// A model without weights, taken apart.
struct CutModel {
  explicit CutModel(const char* name = "tiny-llama");
  explicit CutModel(const model::KnownModel& known);
  const lanes::Subgraph& named(std::string_view name) const;

  forge::HollowModel hollow;
  gguf::File file;
  model::Blueprint blueprint;
  weights::Store weights;
  std::vector<lanes::Subgraph> subgraphs;
};

// Returns a plan with lanes of cores and a few shapes.
plan::Plan plan_with(int n_lanes);
// Returns a request for all of its shapes.
CutRequest cut_request_of(const plan::Plan& plan);

}  // namespace troika::solve
