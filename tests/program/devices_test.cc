// Tests that `troika profile --devices` lists what lanes may name, and says why a runtime is
// missing.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/program/troika.h"

namespace troika::test {
namespace {

using nlohmann::json;

Finished devices_with(const std::map<std::string, std::string>& environment,
                      std::vector<std::string> more) {
  more.insert(more.begin(), {"profile", "--devices"});
  Command command = troika_command(std::move(more));
  for (const auto& [name, value] : environment) command.environment[name] = value;
  return run_program(command);
}

const std::map<std::string, std::string> kNowhere = {{"TROIKA_OPENCL", "/nonexistent/libOpenCL.so"},
                                                     {"TROIKA_OPENVINO", "/nonexistent/folder"}};

TEST(DevicesProgram, WithoutARuntimeItIsSaidWhy) {
  const Finished finished = devices_with(kNowhere, {"--json"});
  expect_success(finished);
  const json found = json::parse(finished.out, nullptr, false);
  ASSERT_EQ(found["devices"].size(), 1u) << finished.out;
  const json& cores = found["devices"][0];
  EXPECT_EQ(cores["kind"], "cores");
  EXPECT_FALSE(cores["name"].get<std::string>().empty());
  EXPECT_FALSE(cores["lane"].get<std::string>().empty());
  EXPECT_GT(cores["memory_bytes"].get<uint64_t>(), uint64_t{1} << 20);
  ASSERT_EQ(found["missing"].size(), 2u) << finished.out;
  EXPECT_EQ(found["missing"][0]["kind"], "opencl");
  EXPECT_EQ(found["missing"][1]["kind"], "openvino");
  const auto says = [&](size_t i, const char* part) {
    return found["missing"][i]["problem"].get<std::string>().find(part) != std::string::npos;
  };
  EXPECT_TRUE(says(0, "OpenCL")) << finished.out;
  EXPECT_TRUE(says(1, "OpenVINO")) << finished.out;
  EXPECT_EQ(finished.out.find("‹"), std::string::npos) << finished.out;
  const Finished people = devices_with(kNowhere, {});
  expect_success(people);
  for (const char* part : {"lane", "cores", "no opencl: ", "no openvino: "}) {
    EXPECT_NE(people.out.find(part), std::string::npos) << part << people.out;
  }
}

TEST(DevicesProgram, EachDeviceHasKindNumberNameAndMemory) {
  const Finished finished = devices_with({}, {"--json"});
  expect_success(finished);
  const json found = json::parse(finished.out, nullptr, false);
  std::map<std::string, int> n_of_kind;
  for (const json& device : found["devices"]) {
    const std::string kind = device["kind"];
    EXPECT_EQ(device["number"], n_of_kind[kind]++) << finished.out;
    EXPECT_FALSE(device["name"].get<std::string>().empty()) << finished.out;
    EXPECT_TRUE(device["memory_bytes"].is_null() || device["memory_bytes"] > 0) << finished.out;
    if (kind == "opencl") {
      EXPECT_EQ(device["lane"], "opencl:" + std::to_string(device["number"].get<int>()));
    }
  }
  // A kind is listed or missing.
  for (const json& missing : found["missing"]) {
    EXPECT_EQ(n_of_kind.count(missing["kind"]), 0u) << finished.out;
  }
  if (n_of_kind.size() < 2) GTEST_SKIP() << "no runtime of devices is here: " << finished.out;
}

TEST(DevicesProgram, ListingMeasuresNothing) {
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{"--seconds", "1"}, {"--again"}, {"model.gguf"}}) {
    expect_refusal(devices_with(kNowhere, more), 2, {"--devices", "measures nothing"});
  }
}

}  // namespace
}  // namespace troika::test
