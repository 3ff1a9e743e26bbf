// Runs HeteroLLM's alternatives on this machine from the command line.
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "tests/program/troika.h"
#include "tests/support/repository.h"

namespace troika::test {
namespace {

using nlohmann::json;

class HeteroProgram : public ProgramTest {
 protected:
  void SetUp() override {
    if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "two lanes need two cores";
    test_support::TinyModel model = small_model();
    model.type = test_support::kQ8_0;
    model_ = write(model);
  }
  std::vector<std::string> words(const std::string& device) const {
    return {"reproduce", "heterollm", "--phones", repository_file("phones"),
            "--measure", model_,      "--device", device,
            "--prompts", "40,100",    "--rounds", "1",
            "--json"};
  }
  std::string model_;
};

// Expects every alternative of section 5.2.2 among what was measured on this machine.
void expect_alternatives(const json& measured) {
  std::set<std::string> names;
  for (const json& system : measured["systems"]) {
    names.insert(system["name"]);
    ASSERT_EQ(system["ms"].size(), 2u);
    for (const json& ms : system["ms"]) EXPECT_GT(ms, 0) << system;
  }
  for (const char* name :
       {"one lane, core", "one lane, device", "online-prepare", "padding", "pipe", "chunked",
        "layer-level", "by margin", "tensor-level", "both cores"}) {
    EXPECT_EQ(names.count(name), 1u) << name;
  }
  ASSERT_FALSE(measured["steps"].empty());
  for (const json& step : measured["steps"]) {
    EXPECT_GT(step["tokens_per_s"], 0) << step;
    EXPECT_GT(step.value("share_of_read_gain", 0.0), 0) << step;
  }
}

TEST_F(HeteroProgram, H12EveryAlternativeRunsOnThisMachine) {
  if (std::getenv("TROIKA_OPENVINO") == nullptr) {
    GTEST_SKIP() << "TROIKA_OPENVINO names no folder of OpenVINO";
  }
  const Finished finished = troika(words("openvino:CPU"));
  // Without dot products of bytes its runtime rounds sums of pairs, which lanes refuse.
  if (troika({"--version"}).out.find("vnni") == std::string::npos) {
    expect_refusal(finished, 1, {"rounds sums of int8 products"});
    GTEST_SKIP() << "this processor has no dot products of bytes, so OpenVINO's sums are rounded";
  }
  expect_success(finished);
  const json measured = json::parse(finished.out, nullptr, false)["this_machine"];
  expect_alternatives(measured);
  for (const json& system : measured["systems"]) {
    if (system["name"] == "online-prepare") {
      EXPECT_GT(system["graphs_ms"][0], 0);
    }
  }
  EXPECT_EQ(measured["steps"].size(), 4u);
}

// A profile says what graphs cost before they run (H1): compiled, and imported where they are kept.
TEST_F(HeteroProgram, H1AProfileHasTheTimesOfGraphs) {
  if (std::getenv("TROIKA_OPENVINO") == nullptr) {
    GTEST_SKIP() << "TROIKA_OPENVINO names no folder of OpenVINO";
  }
  const std::vector<std::string> profile = {
      "profile", model_,      "--lanes", "0;openvino:CPU@1", "--prefill", "bf16",
      "--json",  "--seconds", "0.1",     "--no-storage",     "--again"};
  const auto graphs_with = [&](const std::map<std::string, std::string>& environment) {
    Command command = troika_command(profile);
    for (const auto& [name, value] : environment) command.environment[name] = value;
    const Finished finished = run_program(command);
    expect_success(finished);
    std::vector<json> graphs;
    const json found = json::parse(finished.out, nullptr, false);
    for (const json& op : found["ops"]) {
      EXPECT_EQ(op.contains("build_us"), op["lane"] == 1 && op["op"] == "linear") << op;
      if (op.contains("build_us")) graphs.push_back(op);
    }
    EXPECT_FALSE(graphs.empty());
    return graphs;
  };
  for (const json& graph : graphs_with({{"TROIKA_OPENVINO_BLOBS", ""}})) {
    EXPECT_GT(graph["first_run_us"], 0) << graph;
    EXPECT_FALSE(graph.contains("rebuild_us")) << graph;
  }
  const std::string kept = folder_.file("graphs");
  for (const json& graph : graphs_with({{"TROIKA_OPENVINO_BLOBS", kept}})) {
    EXPECT_GT(graph["rebuild_us"], 0) << graph;
  }
}

using OpenclHeteroProgram = HeteroProgram;

TEST_F(OpenclHeteroProgram, H12EveryAlternativeRunsBesideAnOpenclDevice) {
  const Finished finished = troika(words("opencl:0"));
  if (finished.status != 0 && std::getenv("TROIKA_OPENCL") == nullptr) {
    expect_refusal(finished, 1, {"OpenCL"});
    GTEST_SKIP() << "there is no OpenCL device: " << finished.err;
  }
  expect_success(finished);
  expect_alternatives(json::parse(finished.out, nullptr, false)["this_machine"]);
}

TEST_F(HeteroProgram, H12ADeviceThatIsNotThereIsASentence) {
  expect_refusal(troika(words("openvino:NOWHERE")), 1, {"OpenVINO"});
  expect_refusal(troika(words("fpga:0")), 2, {"fpga"});
}

}  // namespace
}  // namespace troika::test
