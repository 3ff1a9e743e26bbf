// Plans are written and read back, and lanes and placements change no bit of what is computed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/system.h"
#include "prepare/plan/saved_plan.h"
#include "tests/support/logits.h"
#include "tests/support/temp_folder.h"

namespace troika {
namespace {

using test_support::TinyModel;
using test_support::TinyModelFile;

const std::vector<int32_t> kPromptOfPlan = {1, 20, 35, 7, 99, 3, 250, 41, 8, 17, 300, 2};

void write(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string plan_of(const prepare::Options& options) {
  const engine::Engine engine(options);
  return plan::to_json({prepare::plan_identity(engine.file()), engine.plan()});
}

TEST(SavedPlan, RunsAsItSays) {
  const TinyModelFile model(test_support::tiny_model("llama"));
  prepare::Options options = model.float_options();
  const test::TempFolder folder;
  write(folder.file("plan.json"), plan_of(options));

  prepare::Options from_file;
  from_file.model.file = options.model.file;
  from_file.plan.file = folder.file("plan.json");
  const engine::Engine engine(from_file);
  EXPECT_EQ(engine.plan().context, 128);
  EXPECT_EQ(engine.plan().n_threads(), 1);
  EXPECT_EQ(engine.plan().kv_type, tensor::Type::kF32);
  EXPECT_EQ(test_support::engine_logits(from_file, kPromptOfPlan),
            test_support::engine_logits(options, kPromptOfPlan));
}

// Keys in Q8_0 have blocks of 32, which these heads do not fill.
TEST(SavedPlan, KeysThatHeadsDoNotFillAreRefused) {
  TinyModel tiny = test_support::tiny_model("llama");
  tiny.head_dim = tiny.rope_dims = 16;
  const TinyModelFile model(tiny);
  prepare::Options options = model.float_options();
  const test::TempFolder folder;
  std::string plan = plan_of(options);
  const size_t at = plan.find("\"kv\": \"F32\"");
  ASSERT_NE(at, std::string::npos) << plan;
  plan.replace(at, 11, "\"kv\": \"Q8_0\"");
  write(folder.file("plan.json"), plan);
  options = {};
  options.model.file = model.path();
  options.plan.file = folder.file("plan.json");
  try {
    const engine::Engine engine(options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("a multiple of 32 elements"), std::string::npos)
        << error.what();
  }
}

TEST(SavedPlan, IsRefusedForAnotherModelOrMachineOrWhenItIsMissing) {
  const TinyModelFile llama(test_support::tiny_model("llama"));
  const TinyModelFile qwen2(test_support::tiny_model("qwen2"));
  const test::TempFolder folder;
  const std::string path = folder.file("plan.json");
  const auto refusal = [&](const std::string& model) {
    prepare::Options options;
    options.model.file = model;
    options.plan.file = path;
    try {
      const engine::Engine engine(options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refusal(llama.path()).find("cannot be read"), std::string::npos);
  std::string text = plan_of(llama.float_options());
  write(path, text);
  EXPECT_EQ(refusal(llama.path()), "");
  EXPECT_NE(refusal(qwen2.path()).find("another model"), std::string::npos);
  const size_t machine = text.find("\"machine\": \"");
  ASSERT_NE(machine, std::string::npos);
  write(path, text.insert(machine + 12, "not "));
  EXPECT_NE(refusal(llama.path()).find("another machine"), std::string::npos);
}

// Plans may be edited by hand, and name what only a virtual phone has.
class EditedPlan : public testing::Test {
 protected:
  // Returns what is said of the model's plan with this text in front of its lanes.
  std::string refusal_with(const std::string& text, bool is_in_lanes) const {
    std::string plan = plan_of(model_.float_options());
    const std::string lanes = "\"lanes\": [";
    const size_t at = plan.find(lanes);
    if (at == plan.npos) return "no lanes in " + plan;
    plan.insert(is_in_lanes ? at + lanes.size() : at, text);
    write(folder_.file("plan.json"), plan);
    prepare::Options options;
    options.model.file = model_.path();
    options.plan.file = folder_.file("plan.json");
    return test::message_of<Error>([&] { const engine::Engine engine(options); });
  }

 private:
  const TinyModelFile model_{test_support::tiny_model("llama")};
  const test::TempFolder folder_;
};

// A processor of a phone is no group of cores.
TEST_F(EditedPlan, ProcessorsOfAPhoneAreNoLanesOfThisMachine) {
  for (const char* kind : {"cpu", "gpu", "npu"}) {
    const std::string message =
        refusal_with(fmt::format("{{\"kind\": \"{}\"}},", kind), /*is_in_lanes=*/true);
    EXPECT_NE(message.find(fmt::format("'{}'", kind)), std::string::npos) << message;
  }
}

TEST_F(EditedPlan, PartsOfAPhoneAreNoneOfAPlanForThisMachine) {
  for (const auto& [part, value] :
       {std::pair("npu", fmt::format("{{\"stage\": \"{}\", \"prune\": 85}}", plan::kNpuStages[0])),
        std::pair("changes_layouts", std::string("true"))}) {
    const std::string message =
        refusal_with(fmt::format("\"{}\": {}, ", part, value), /*is_in_lanes=*/false);
    EXPECT_NE(message.find(fmt::format("'{}', which is for a virtual phone", part)),
              std::string::npos)
        << message;
  }
}

TEST(Lanes, PlacementsDoNotChangeABit) {
  const std::vector<int> cores = usable_core_numbers();
  if (cores.size() < 2) GTEST_SKIP() << "needs two cores";
  const TinyModelFile model(test_support::tiny_model("llama"));
  const prepare::Options one_lane = model.float_options();
  prepare::Options two_lanes = one_lane;
  two_lanes.lanes.n_threads = 0;
  two_lanes.lanes.cores = {{{cores[0]}, 1}, {{cores[1]}, 1}};
  const auto expected = test_support::engine_logits(one_lane, kPromptOfPlan);
  for (const char* placement : {"=1", "ffn=1", "attention=1", "ffn@2=1", "head=1", "embed=1"}) {
    two_lanes.lanes.placements = {plan::placement_from_text(placement)};
    EXPECT_EQ(test_support::engine_logits(two_lanes, kPromptOfPlan, {5, 1}), expected) << placement;
  }
}

}  // namespace
}  // namespace troika
