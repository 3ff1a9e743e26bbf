// Plans a small model on virtual phones that compute no values.
#include "machines/phone_setup.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "base/error.h"
#include "forge/hollow.h"
#include "model/architecture.h"
#include "model/known.h"
#include "plan/plan_json.h"
#include "tests/support/repository.h"

namespace troika::machines {
namespace {

class PhoneSetups : public testing::Test {
 protected:
  PhoneSetups() {
    options_.phone.file = test::repository_file("phones/8gen3.json");
    options_.phone.stack = "heterollm";
    options_.phone.has_values = false;
  }
  std::unique_ptr<PhoneSetup> make() const {
    return make_phone_setup(options_, file_, blueprint_, weights_);
  }
  std::unique_ptr<PhoneSetup> make(int context) {
    options_.memory.context = context;
    return make();
  }

  forge::HollowModel hollow_{model::get_known("tiny-llama"), "q8_0"};
  gguf::File file_ = hollow_.open();
  model::Blueprint blueprint_ = model::read(file_);
  weights::Store weights_{file_, blueprint_};
  prepare::Options options_;
};

TEST_F(PhoneSetups, EveryContextThatAPlanCanSayIsPlanned) {
  for (const int context : {1, 16, 17, 4096, plan::kMostContext}) {
    const plan::Plan plan = make(context)->plan;
    EXPECT_EQ(plan.context, context);
    EXPECT_GE(plan.chunk(), 32) << context;
  }
  EXPECT_THROW(make(plan::kMostContext + 1), UsageError);
  EXPECT_THROW(make(2000000000), UsageError);
}

TEST_F(PhoneSetups, D1AShortContextCanChangeLayouts) {
  options_.memory.layouts = prepare::Layouts::kSwitch;
  for (const int context : {17, 32}) EXPECT_EQ(make(context)->plan.chunk(), 32) << context;
}

TEST_F(PhoneSetups, PlansWithTheSmallestChunksCanBeRead) {
  for (const int chunk : {1, 8}) {
    options_.phone.prompt_shapes = {chunk};
    const plan::PlanFile made = {.made_for = {}, .plan = make()->plan, .tuned = {}};
    EXPECT_EQ(plan::plan_from_json(plan::to_json(made), "p").plan.chunk(), chunk);
  }
}

TEST_F(PhoneSetups, P8APlanWithMoreHotNeuronsThanTheModelHasIsRefused) {
  options_.phone.stack = "powerinfer-2";
  options_.phone.neurons.system = plan::NeuronSystem::kXpu;
  plan::Plan plan = make()->plan;
  ASSERT_TRUE(plan.neurons.has_value());
  const int n_neurons = make()->neurons->n_neurons;
  const auto take = [&](const plan::HotNeurons& hot) {
    plan.neurons->hot = {hot};
    options_.plan.exact = plan;
    make();
  };
  EXPECT_NO_THROW(take({1, n_neurons - 1, 1}));
  EXPECT_THROW(take({1, n_neurons, 1}), Error);
  EXPECT_THROW(take({1, 1, n_neurons}), Error);
  EXPECT_THROW(take({1, 1 << 20, 1 << 20}), Error);
}

}  // namespace
}  // namespace troika::machines
