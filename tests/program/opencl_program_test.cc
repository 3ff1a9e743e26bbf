// Runs models on an OpenCL device from the command line.
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/program/troika.h"

namespace troika::test {
namespace {

using nlohmann::json;

class OpenclProgram : public ProgramTest {
 protected:
  void SetUp() override {
    model_ = write(small_model());
    const Finished finished = run({});
    if (finished.status == 0 || std::getenv("TROIKA_OPENCL") != nullptr) {
      expect_success(finished);
      return;
    }
    expect_refusal(finished, 1, {"OpenCL"});
    GTEST_SKIP() << "there is no OpenCL device: " << finished.err;
  }
  // Runs the program with a folder of side files of this test's own.
  Finished in_own_folder(std::vector<std::string> words, const std::string& cache) const {
    Command command = troika_command(std::move(words));
    command.environment["XDG_CACHE_HOME"] = folder_.file(cache);
    command.environment["TROIKA_OPENCL_PROGRAMS"] = "";  // names no other folder
    // PoCL keeps in a folder of its own what it makes of kernels when they first run.
    command.environment["POCL_CACHE_DIR"] = empty_cache() + "/pocl";
    return run_program(command);
  }
  Finished run(const std::vector<std::string>& more, const std::string& cache = "first") const {
    std::vector<std::string> words = {"run", model_,      "--lanes", "opencl:0", "--activations",
                                      "f32", "--prefill", "f32",     "-p",       "Once",
                                      "-n",  "2"};
    words.insert(words.end(), more.begin(), more.end());
    return in_own_folder(words, cache);
  }
  json kept(const std::string& cache) const {
    return json::parse(in_own_folder({"cache", "--json"}, cache).out, nullptr, false)["files"];
  }
  std::string model_;
};

TEST_F(OpenclProgram, WhatItsDriverCompilesIsKeptAmongTheSideFiles) {
  const json files = kept("first");
  ASSERT_FALSE(files.empty());
  for (const json& file : files) {
    EXPECT_EQ(file["kind"], "opencl") << file;
    EXPECT_TRUE(file["name"].get<std::string>().ends_with(".program")) << file;
  }
  const Finished again = run({});
  expect_success(again);
  EXPECT_NE(again.err.find(" 0 programs compiled"), std::string::npos) << again.err;
  expect_success(in_own_folder({"cache", "--remove-all"}, "first"));
  EXPECT_TRUE(kept("first").empty());
}

TEST_F(OpenclProgram, NothingIsKeptWithoutSideFiles) {
  const Finished finished = run({"--no-cache"}, "second");
  expect_success(finished);
  EXPECT_EQ(finished.err.find(" 0 programs compiled"), std::string::npos) << finished.err;
  EXPECT_FALSE(std::filesystem::exists(folder_.file("second/troika")));
}

// Rates of a device are no share of what the cores could do.
TEST_F(OpenclProgram, ItsRatesHaveNoPeakAndItIsNamed) {
  const Finished finished =
      in_own_folder({"bench", model_, "--lanes", "opencl:0", "--activations", "f32", "--prefill",
                     "f32", "-p", "8", "-n", "2", "-r", "1", "-c", "64", "--json"},
                    "first");
  expect_success(finished);
  const json j = json::parse(finished.out);
  EXPECT_TRUE(j.at("prefill").at(0).at("fraction_of_peak").is_null()) << finished.out;
  EXPECT_TRUE(j.at("decode").at("fraction_of_bandwidth").is_null()) << finished.out;
  EXPECT_EQ(j.at("workers"), "opencl:0");
}

}  // namespace
}  // namespace troika::test
