// Runs a model that is larger than its memory (P10), under a real limit of the system: a cgroup of
// version 1 or 2, which only root can make. The tests look at bytes and reads, never at time.
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/program/troika.h"
#include "tests/support/sanitized.h"

namespace troika::test {
namespace {

constexpr uint64_t kMegabyte = 1'000'000;

// A group of processes whose memory the system limits and measures.
class LimitedGroup {
 public:
  explicit LimitedGroup(uint64_t bytes) {
    const std::string root = "/sys/fs/cgroup";
    const bool is_second = std::filesystem::exists(root + "/cgroup.controllers");
    if (is_second) {
      // The root must hand on the control of memory, where it has not done so already.
      std::ofstream(root + "/cgroup.subtree_control") << "+memory";
    }
    path_ = root + (is_second ? "" : "/memory") + "/troika-test-" + std::to_string(getpid());
    peak_ = path_ + (is_second ? "/memory.peak" : "/memory.max_usage_in_bytes");
    std::error_code failure;
    if (!std::filesystem::create_directory(path_, failure)) return;
    const std::string limit_path = path_ + (is_second ? "/memory.max" : "/memory.limit_in_bytes");
    std::ofstream(limit_path) << bytes;
    std::ifstream limit(limit_path);
    uint64_t found = 0;
    // Kernels before 5.19 do not tell the peak in version 2.
    is_there_ = (limit >> found) && found <= bytes && std::filesystem::exists(peak_);
  }
  ~LimitedGroup() { ::rmdir(path_.c_str()); }

  bool is_there() const { return is_there_; }
  // Returns the command as one that first enters the group.
  Command member(Command command) const {
    std::string line = "echo $$ > " + path_ + "/cgroup.procs && exec \"$@\"";
    std::vector<std::string> words = {"/bin/sh", "-c", line, "sh"};
    words.insert(words.end(), command.words.begin(), command.words.end());
    command.words = words;
    return command;
  }
  uint64_t most_bytes() const {
    uint64_t bytes = 0;
    std::ifstream(peak_) >> bytes;
    return bytes;
  }

 private:
  std::string path_;
  std::string peak_;  // the file that tells the most bytes
  bool is_there_ = false;
};

class LimitedMemory : public ProgramTest {};

TEST_F(LimitedMemory, P10AModelLargerThanItsBudgetKeepsToIt) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitised program's own memory is none of the model's";
  constexpr uint64_t kBudget = 80 * kMegabyte;
  const LimitedGroup group(2 * kBudget);
  if (!group.is_there()) GTEST_SKIP() << "no cgroup with a limit of memory can be made here";
  test_support::TinyModel tiny = test_support::tiny_model("llama");
  tiny.activation = "relu";
  tiny.type = test_support::kQ4_0;
  tiny.width = 1024;
  tiny.n_layers = 8;
  tiny.ffn_width = 4096;
  const std::string model = write(tiny);
  const uint64_t model_bytes = std::filesystem::file_size(model);
  ASSERT_GT(model_bytes, kBudget / 4 * 3);
  const std::vector<std::string> run = {
      "run",       model,     "-p",       "x",         "-n",          "6",     "--temp",
      "1",         "--draft", "none",     "--no-plan", "--json",      "--ffn", "by-neuron",
      "--context", "128",     "--memory", "80M",       "--ignore-end"};
  // The first run writes the bundles outside the group, which would be charged for the page cache
  // of that.
  expect_success(troika(run));
  const Finished finished = run_program(group.member(troika_command(run)));
  expect_success(finished);
  const auto json = nlohmann::json::parse(finished.out, nullptr, false);
  ASSERT_FALSE(json["stream"].is_null());
  const auto& neurons = json["stream"]["neurons"];
  EXPECT_LE(group.most_bytes(), kBudget + 64 * kMegabyte);
  EXPECT_GT(neurons["misses"].get<int64_t>(), 0);
  EXPECT_GT(neurons["hits"].get<int64_t>(), 0);
  EXPECT_LE(neurons["reads"].get<int64_t>(), neurons["misses"].get<int64_t>());
}

}  // namespace
}  // namespace troika::test
