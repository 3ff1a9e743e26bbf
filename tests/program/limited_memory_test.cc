// Runs a model that is larger than its memory (P10), under a real limit of the system: a cgroup of
// version 1 or 2, which only root can make, with a slow disk where one can be made too. The tests
// look at bytes and reads, never at time. The model is larger than the group's limit, so that a
// program which did not keep to its budget would be killed or exceed it.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/program/troika.h"
#include "tests/support/sanitized.h"

namespace troika::test {
namespace {

using nlohmann::json;

constexpr uint64_t kMegabyte = 1'000'000;

const std::string kGroups = "/sys/fs/cgroup";

// A group of processes whose memory the system limits and measures, and whose disk it slows down.
class LimitedGroup {
 public:
  explicit LimitedGroup(uint64_t bytes)
      : is_second_(std::filesystem::exists(kGroups + "/cgroup.controllers")) {
    // The root must hand on the control of memory and disks, where it has not done so already.
    for (const char* const controller : {"+memory", "+io"}) {
      if (is_second_) std::ofstream(kGroups + "/cgroup.subtree_control") << controller;
    }
    const std::string memory = make("memory");
    if (memory.empty()) return;
    const std::string limit_path = memory + (is_second_ ? "/memory.max" : "/memory.limit_in_bytes");
    std::ofstream(limit_path) << bytes;
    peak_ = memory + (is_second_ ? "/memory.peak" : "/memory.max_usage_in_bytes");
    std::ifstream limit(limit_path);
    uint64_t found = 0;
    // Kernels before 5.19 do not tell the peak in version 2.
    is_there_ = (limit >> found) && found <= bytes && std::filesystem::exists(peak_);
  }
  ~LimitedGroup() {
    for (const std::string& path : paths_) ::rmdir(path.c_str());
  }
  LimitedGroup(const LimitedGroup&) = delete;
  LimitedGroup& operator=(const LimitedGroup&) = delete;

  bool is_there() const { return is_there_; }
  // Slows the disk under a file down, where the system can.
  void slow_down(const std::string& file, uint64_t bytes_per_s) {
    struct stat status = {};
    const std::string group = is_second_ ? paths_.front() : make("blkio");
    if (group.empty() || ::stat(file.c_str(), &status) != 0) return;
    const std::string disk =
        std::to_string(major(status.st_dev)) + ":" + std::to_string(minor(status.st_dev));
    const std::string rate = std::to_string(bytes_per_s);
    if (is_second_) {
      std::ofstream(group + "/io.max") << disk + " rbps=" + rate;
    } else {
      std::ofstream(group + "/blkio.throttle.read_bps_device") << disk + " " + rate;
    }
  }
  // Returns the command as one that first enters the group.
  Command member(Command command) const {
    std::string line;
    for (const std::string& path : paths_) line += "echo $$ > " + path + "/cgroup.procs && ";
    std::vector<std::string> words = {"/bin/sh", "-c", line + "exec \"$@\"", "sh"};
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
  // Makes a group below a controller's root; version 2 has one root for all. Empty: it cannot.
  std::string make(const std::string& controller) {
    const std::string root = is_second_ ? kGroups : kGroups + "/" + controller;
    const std::string path = root + "/troika-test-" + std::to_string(getpid());
    std::error_code failure;
    if (!std::filesystem::create_directory(path, failure)) return {};
    paths_.push_back(path);
    return path;
  }

  bool is_second_;
  std::vector<std::string> paths_;
  std::string peak_;  // the file that tells the most bytes
  bool is_there_ = false;
};

// Lets the page cache forget a file. Says whether it can be read past that cache.
bool make_cold(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_GE(file, 0) << path;
  ::fsync(file);
  (void)::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  ::close(file);
  const int direct = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
  if (direct >= 0) ::close(direct);
  return direct >= 0;
}

// Has a model of 310 MB in a group of 240 MB, twice the budget of 120 MB.
class LimitedMemory : public ProgramTest {
 protected:
  static constexpr uint64_t kBudget = 120 * kMegabyte;
  static constexpr int kTokens = 6;

  void SetUp() override {
    if (kIsSanitized) GTEST_SKIP() << "a sanitised program's own memory is none of the model's";
    if (!group_.is_there()) GTEST_SKIP() << "no cgroup with a limit of memory can be made here";
    model_ = folder_.file("planted.gguf");
    expect_success(troika({"synth", "--like", "small-bamboo", "--plant-sparsity", "15%",
                           "--overlap", "0.5", model_}));
    model_bytes_ = std::filesystem::file_size(model_);
    ASSERT_GT(model_bytes_, 2 * kBudget + 64 * kMegabyte);
    group_.slow_down(model_, 400 * kMegabyte);
  }

  std::vector<std::string> words(const std::string& ffn, int n_tokens) const {
    return {"run",    model_, "-p",        "x",    "-n",           std::to_string(n_tokens),
            "--temp", "0",    "--draft",   "none", "--json",       "--no-plan",
            "--ffn",  ffn,    "--context", "128",  "--ignore-end", "--memory",
            "120M"};
  }

  // Runs in the group, over files that no memory has. Returns what the program says.
  json limited_run(const std::string& ffn) {
    const bool is_direct = make_cold(model_);
    std::error_code none;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(empty_cache(), none)) {
      if (entry.is_regular_file()) make_cold(entry.path());
    }
    const Finished finished = run_program(group_.member(troika_command(words(ffn, kTokens))));
    expect_success(finished);
    EXPECT_LE(group_.most_bytes(), kBudget + 64 * kMegabyte);
    json all = json::parse(finished.out, nullptr, false);
    EXPECT_FALSE(all["stream"].is_null());
    if (is_direct) {
      EXPECT_GT(all["stream"]["direct_reads"].get<int64_t>(), 100);
      // The last page of a file is a part of one.
      EXPECT_LE(all["stream"]["cached_reads"].get<int64_t>(), 4 * kTokens);
    }
    return all;
  }

  LimitedGroup group_{2 * kBudget};
  std::string model_;
  uint64_t model_bytes_ = 0;
};

TEST_F(LimitedMemory, P10AModelLargerThanItsBudgetKeepsToIt) {
  const json found = limited_run("by-output");
  const json& stream = found["stream"];
  const auto per_pass = stream["bytes_per_pass"].get<uint64_t>();
  EXPECT_GT(per_pass, model_bytes_ - kBudget);
  EXPECT_LT(per_pass, model_bytes_);
  // Each token reads what takes turns once, and what the last one read ahead comes on top.
  EXPECT_GE(stream["read_bytes"].get<uint64_t>(), (kTokens - 1) * per_pass);
  EXPECT_LE(stream["read_bytes"].get<uint64_t>(), (kTokens + 2) * per_pass);
}

TEST_F(LimitedMemory, P10NeuronsOfAModelLargerThanItsBudgetKeepToIt) {
  // The first run writes the bundles outside the group, which would be charged for the page cache
  // of that.
  expect_success(troika(words("by-neuron", 1)));
  const json found = limited_run("by-neuron");
  const json& neurons = found["stream"]["neurons"];
  const auto n_missed = neurons["misses"].get<int64_t>();
  EXPECT_GT(n_missed, 0);
  EXPECT_LE(neurons["reads"].get<int64_t>(), n_missed);
  EXPECT_EQ(neurons["from_model"].get<int64_t>(), 0);
  const auto most = static_cast<uint64_t>(n_missed) * (4096 + neurons["gap_bytes"].get<uint64_t>());
  EXPECT_LE(neurons["read_bytes"].get<uint64_t>(), most);
}

}  // namespace
}  // namespace troika::test
