// Tests which cuts with devices are searched, by the classes in which their lanes compute.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "schedule/cut/placement_classes.h"
#include "schedule/cut/plan_cuts.h"
#include "solve/cuts/cuts_test_support.h"

namespace troika::solve {
namespace {

using plan::Phase;

plan::Plan plan_beside_device(const char* kind, const char* device, plan::Prefill prefill) {
  plan::Plan plan = plan_with(2);
  plan.lanes[1].kind = kind;
  plan.lanes[1].device = device;
  plan.prefill = prefill;
  plan.activations = plan::Activations::kF32;
  return plan;
}

// Returns how cuts of the best plans divide ops of a phase, by random times.
std::set<std::string> divided_by(const CutModel& m, const plan::Plan& plan, Phase phase) {
  std::set<std::string> ways;
  for (int seed = 0; seed < 24; ++seed) {
    const RandomTimes times(static_cast<uint64_t>(seed), 2, m.weights);
    CutRequest request = cut_request_of(plan);
    request.cuts = cut_rules(plan);
    request.place.has_rules_of_phases = !plan.has_one_class();
    request.place.class_of = [&](int lane, Phase of) { return schedule::class_of(plan, lane, of); };
    const CutChoice choice = solve_cuts(m.blueprint, m.weights, plan, times, request);
    plan::Plan chosen = plan;
    chosen.placements = choice.places.placements;
    chosen.cuts = choice.cuts;
    EXPECT_NO_THROW(schedule::check_cuts(chosen, m.blueprint));
    EXPECT_NO_THROW(schedule::check_placements(chosen, m.blueprint));
    for (const plan::TensorCut& cut : choice.cuts) {
      if (cut.phase != phase) continue;
      ways.insert(!cut.heads.empty() ? "heads" : cut.tokens.empty() ? "rows" : "tokens");
    }
  }
  return ways;
}

// Prompts in int8 have the bits of cores there; steps are floats of the device's own.
TEST(DeviceCuts, H3_PromptsInInt8AreDividedWithAnOpenclLaneAndStepsAreNot) {
  const CutModel m;
  const plan::Plan plan = plan_beside_device("opencl", "0", plan::Prefill::kInt8);
  const std::set<std::string> ways = divided_by(m, plan, Phase::kPrompt);
  EXPECT_TRUE(ways.contains("rows"));
  EXPECT_TRUE(ways.contains("tokens"));
  EXPECT_TRUE(divided_by(m, plan, Phase::kStep).empty());
}

TEST(DeviceCuts, H3_FloatsOfADeviceAreNotDivided) {
  const CutModel m;
  for (const auto& [kind, device, prefill] :
       {std::tuple("opencl", "0", plan::Prefill::kF32),
        std::tuple("opencl", "0", plan::Prefill::kF16),
        std::tuple("openvino", "CPU", plan::Prefill::kBf16)}) {
    const plan::Plan plan = plan_beside_device(kind, device, prefill);
    EXPECT_TRUE(divided_by(m, plan, Phase::kPrompt).empty()) << kind;
    EXPECT_TRUE(divided_by(m, plan, Phase::kStep).empty()) << kind;
  }
  // Lanes of cores are of one class in whatever they compute.
  plan::Plan of_cores = plan_with(2);
  of_cores.prefill = plan::Prefill::kBf16;
  EXPECT_FALSE(divided_by(m, of_cores, Phase::kPrompt).empty());
  EXPECT_FALSE(divided_by(m, of_cores, Phase::kStep).empty());
}

}  // namespace
}  // namespace troika::solve
