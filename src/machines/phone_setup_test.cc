// Plans a small model on virtual phones that compute no values.
#include "machines/phone_setup.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/atomic_file.h"
#include "base/error.h"
#include "forge/hollow.h"
#include "machines/phone_neurons.h"
#include "model/architecture.h"
#include "model/known.h"
#include "model/limits.h"
#include "plan/plan_json.h"
#include "prepare/plan/saved_plan.h"
#include "schedule/graphs.h"
#include "tests/support/repository.h"
#include "tests/support/temp_folder.h"

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
  for (const int context : {1, 16, 17, 4096, model::kMostContext}) {
    const plan::Plan plan = make(context)->plan;
    EXPECT_EQ(plan.context, context);
    EXPECT_GE(plan.chunk(), 32) << context;
  }
  EXPECT_THROW(make(model::kMostContext + 1), UsageError);
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

TEST_F(PhoneSetups, APlanIsOfThePhoneWithTheSameConstants) {
  const test::TempFolder folder;
  const std::string path = folder.file("plan.json");
  const auto made = make();
  write_file(path, plan::to_json({prepare::plan_identity(file_, made->identity()), made->plan}));
  options_.plan.file = path;
  EXPECT_EQ(make()->plan.chunk(), made->plan.chunk());
  // A constant of the phone, and one of the software on it.
  const plan::ConstantChoice others[] = {{"cpu.small.clock_ghz", 1.5}, {"npu.int8_tops", 1e-5}};
  for (const plan::ConstantChoice& other : others) {
    options_.phone.constants = {other};
    EXPECT_THROW(make(), Error) << other.name;
  }
  options_.phone.constants = {};
  options_.phone.bus_taken_gb_s = 10.0;
  EXPECT_THROW(make(), Error);
  options_.phone.bus_taken_gb_s = 0.0;
  options_.phone.cores = lanes::cores_from_text("prime=1");
  EXPECT_THROW(make(), Error);
  // All prime and middle cores are those that there are anyhow.
  options_.phone.cores = made->model.used_cores();
  EXPECT_NO_THROW(make());
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

TEST_F(PhoneSetups, ADeviceTakesATaskAtLeast) {
  for (const int depth : {0, -5}) {
    options_.phone.queue_depth = depth;
    EXPECT_THROW(prepare::check_options(options_), UsageError) << depth;
  }
}

// Returns what is said where a plan cannot be made; empty: it is made.
template <typename Make>
std::string refusal_of(const Make& make) {
  try {
    make();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST_F(PhoneSetups, P8AShareWithoutRoomForANeuronIsRefusedByItsName) {
  options_.phone.stack = "powerinfer-2";
  options_.phone.neurons.system = plan::NeuronSystem::kPlain;
  options_.phone.neurons.ffn_share = 0.0;
  const std::string problem = refusal_of([&] { make(); });
  EXPECT_NE(problem.find("‹ffn-share› 0"), std::string::npos) << problem;
  EXPECT_EQ(problem.find("‹memory›"), std::string::npos) << problem;
  options_.phone.neurons.system = plan::NeuronSystem::kMap;
  EXPECT_EQ(refusal_of([&] { make(); }), "");
}

// A trial of some blocks has a part of the memory, which may be less than a neuron.
TEST_F(PhoneSetups, P8OneNeuronIsRoomEnough) {
  options_.phone.stack = "powerinfer-2";
  options_.phone.neurons.system = plan::NeuronSystem::kXpu;
  options_.phone.neurons.ffn_share = 1.0;
  const lanes::NeuronShape shape = *make()->neurons;
  ASSERT_GT(shape.n_layers, 2);
  const auto bytes = static_cast<double>(shape.neuron_bytes());
  options_.phone.neurons.ffn_share = 1.01 * bytes / static_cast<double>(shape.cacheable_bytes());
  EXPECT_EQ(refusal_of([&] { EXPECT_GE(make()->plan.neurons->cache_bytes, bytes); }), "");
}

// A Q4_K_M file has matrices of two types, the last one among the larger ones.
TEST(NeuronShapes, P8WeightsOfMixedTypesTakeWhatTheFileHas) {
  const forge::HollowModel hollow(model::get_known("bamboo-7b"), "q4_k_m");
  const gguf::File file = hollow.open();
  const model::Blueprint blueprint = model::read(file);
  const weights::Store weights(file, blueprint);
  std::set<tensor::Type> types;
  double bytes = 0.0;
  for (const model::Op& op : blueprint.ops) {
    if (op.kind != model::OpKind::kLinear || op.layer < 0) continue;
    if (!std::string_view(schedule::op_name(blueprint, op)).starts_with("ffn_")) continue;
    types.insert(weights.matrix(op.weight).type);
    bytes += static_cast<double>(weights.matrix(op.weight).bytes());
  }
  ASSERT_EQ(types.size(), 2u);
  const lanes::NeuronShape shape = neuron_shape(blueprint, weights, 0.1);
  EXPECT_NEAR(static_cast<double>(shape.cacheable_bytes() + shape.scale_bytes()), bytes,
              1e-3 * bytes);
}

// Neurons are read and computed as rows of three matrices.
TEST(NeuronShapes, P8BlocksWithoutAGateAreRefused) {
  const forge::HollowModel hollow(model::get_known("bamboo-7b"), "q4_0");
  const gguf::File file = hollow.open();
  const model::Blueprint blueprint = model::read(file);
  const weights::Store weights(file, blueprint);
  EXPECT_EQ(neuron_shape(blueprint, weights, 0.1).n_matrices, 3);
  for (const bool is_one : {true, false}) {
    model::Blueprint without = blueprint;
    std::erase_if(without.ops, [&](const model::Op& op) {
      return op.kind == model::OpKind::kLinear && (!is_one || op.layer == 0) &&
             std::string_view(schedule::op_name(blueprint, op)) == "ffn_gate";
    });
    EXPECT_THROW(neuron_shape(without, weights, 0.1), UsageError) << is_one;
  }
}

}  // namespace
}  // namespace troika::machines
