// The models that the project ships, and a larger one where it has been fetched, say on devices
// what they say on cores: in floats on an OpenCL device alone, and with prompts in int8 that a
// device and cores share, to the bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "lanes/opencl/test_support.h"
#include "lanes/vendor/test_support.h"
#include "tests/support/greedy.h"
#include "tests/support/logits.h"
#include "tests/support/real_model.h"
#include "tests/support/tiny_engine.h"

namespace troika {
namespace {

using engine::Engine;
using engine::Session;
using test_support::copy_of;
using test_support::greedy_agreement;

constexpr const char* kRealModel = "SmolLM2-135M";
constexpr int kTrainedTokens = 60;
// This is the largest allowed error, as a part of the largest logit.
constexpr double kDeviceBound = 1e-5;
constexpr const char* kDeviceStory =
    "Once upon a time there was a miller who had three sons, a mill, a donkey and a cat. When he "
    "died, the eldest took the mill, the second took the donkey, and nothing was left for the "
    "youngest but the cat. \"What shall I do with you?\" he said. \"Give me a pair of boots,\" "
    "said";

class OfTrainedModels : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const bool is_ours = GetParam() != kRealModel;
    path_ = is_ours ? std::string(TROIKA_MODELS) + "/" + GetParam() + "-q8_0.gguf"
                    : test_support::real_model_path();
    if (std::filesystem::exists(path_)) return;
    const char* const maker =
        is_ours ? "the recipe in models/train makes it" : "scripts/real_model.py fetches it";
    GTEST_SKIP() << path_ << " is missing: " << maker;
  }
  prepare::Options options(plan::Prefill prefill) const {
    prepare::Options options;
    options.model.file = path_;
    options.memory.context = 256;
    options.memory.has_side_files = false;
    options.activations = plan::Activations::kF32;
    options.memory.kv_type = tensor::Type::kF32;
    options.prompts.prefill = prefill;
    if (prefill == plan::Prefill::kInt8) options.prompts.int8 = plan::Int8Method::kToken;
    options.lanes.cores = {{{}, 1}};
    return options;
  }
  static plan::PlannedLane lane_of(const char* kind, const char* device) {
    plan::PlannedLane lane = {{}, 0, kind};
    lane.device = device;
    return lane;
  }
  // Expects prompts in int8 that cores share with a device to have the bits of cores alone.
  void expect_bits_of_cores(const plan::PlannedLane& device) const {
    const prepare::Options alone = options(plan::Prefill::kInt8);
    prepare::Options whole = alone, rows = alone;
    whole.lanes.cores.push_back(device);
    for (const char* place : {"qkv@prompt=1", "ffn@prompt=1"}) {
      whole.lanes.placements.push_back(plan::placement_from_text(place));
    }
    rows.lanes.cores.push_back(device);
    rows.lanes.cuts = {plan::cut_from_text("@prompt=rows:0:1,1:1")};
    Engine on_cores(alone);
    const auto prompt = on_cores.tokenizer().encode(kDeviceStory);
    for (const prepare::Options& shared : {whole, rows}) {
      Engine engine(shared);
      Session judge(on_cores), session(engine);
      judge.prefill(prompt);
      session.prefill(prompt);
      EXPECT_TRUE(copy_of(session.logits()) == copy_of(judge.logits()));
      Session judge_of_text(on_cores), of_text(engine);
      EXPECT_EQ(greedy_agreement(judge_of_text, of_text, prompt, kTrainedTokens).n_equal,
                kTrainedTokens);
    }
  }
  std::string path_;
};

class OpenclTrained : public OfTrainedModels {
 protected:
  void SetUp() override {
    OfTrainedModels::SetUp();
    const lanes::opencl::FoundDevice found = lanes::opencl::find_device();
    if (found.device == nullptr) GTEST_SKIP() << found.problem;
  }
};

TEST_P(OpenclTrained, SayInFloatsWhatCoresSay) {
  prepare::Options on_device = options(plan::Prefill::kF32);
  on_device.lanes.cores = {lane_of("opencl", "0")};
  Engine cores(options(plan::Prefill::kF32)), device(on_device);
  const auto prompt = cores.tokenizer().encode(kDeviceStory);
  Session judge(cores), session(device);
  const int n_equal = greedy_agreement(judge, session, prompt, kTrainedTokens).n_equal;
  std::printf("%s, greedy tokens on an OpenCL device as on cores: %d of %d\n", GetParam().c_str(),
              n_equal, kTrainedTokens);
  EXPECT_EQ(n_equal, kTrainedTokens);
  Session fresh(device);
  const auto logits = test_support::engine_logits(fresh, prompt);
  const reference::Model model(reference::read_gguf(path_));
  const double error = reference::relative_error(logits, reference::forward(model, prompt));
  std::printf("%s, on an OpenCL device: error %.2e\n", GetParam().c_str(), error);
  EXPECT_LE(error, kDeviceBound);
}

TEST_P(OpenclTrained, PromptsInInt8HaveTheBitsOfCores) {
  expect_bits_of_cores(lane_of("opencl", "0"));
}

class VendorTrained : public OfTrainedModels {
 protected:
  void SetUp() override {
    OfTrainedModels::SetUp();
    const lanes::openvino::FoundLibrary found = lanes::openvino::find_library();
    if (found.library == nullptr) GTEST_SKIP() << found.problem;
  }
};

TEST_P(VendorTrained, PromptsInInt8HaveTheBitsOfCores) {
  expect_bits_of_cores(lane_of("openvino", "CPU"));
}

const auto kTrainedModels = testing::Values("troika-silu", "troika-relu", kRealModel);
std::string trained_name(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(The, OpenclTrained, kTrainedModels, trained_name);
INSTANTIATE_TEST_SUITE_P(The, VendorTrained, kTrainedModels, trained_name);

}  // namespace
}  // namespace troika
