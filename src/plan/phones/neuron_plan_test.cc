#include "plan/phones/neuron_plan.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace troika::plan {
namespace {

TEST(NeuronChoice, SharesThatNoPlanIsReadWithAreRefused) {
  const auto check = [](double live) {
    NeuronChoice choice;
    choice.live_share = live;
    check_neuron_choice(choice, /*has_limit=*/false, /*has_values=*/false);
  };
  for (const double share : {1e-6, 0.5, 1.0}) EXPECT_NO_THROW(check(share)) << share;
  for (const double share : {0.0, -0.1, 1.1, std::nan("")}) {
    EXPECT_THROW(check(share), UsageError) << share;
  }
}

}  // namespace
}  // namespace troika::plan
