#include "lanes/opencl/driver/programs.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/atomic_file.h"
#include "lanes/opencl/test_support.h"
#include "tests/support/temp_folder.h"

namespace troika::lanes::opencl {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCount = "__kernel void count(__global int* x, int by) { x[0] += by; }";

class OpenclPrograms : public testing::Test {
 protected:
  void SetUp() override {
    FoundDevice found = find_device();
    if (found.device == nullptr) GTEST_SKIP() << found.problem;
    device_ = found.device;
  }

  // Runs the kernel of a program that `folder` may hold. Returns what making the program cost.
  ProgramCosts count(const std::string& folder, std::string* problem) {
    Programs programs(device_, folder);
    BoundKernel kernel(device_, programs.build(kCount, "count", "-DUNUSED"), "count");
    SharedMemory memory(device_);
    auto* const x = reinterpret_cast<int*>(memory.allocate(64));
    EXPECT_NE(x, nullptr);
    kernel.set(0, memory.locate(x).buffer, int{3});
    EXPECT_EQ(kernel.run(1), kOk);
    kernel.set(1, int{4});
    EXPECT_EQ(kernel.run(1), kOk);
    device_->api().finish(device_->queue());
    EXPECT_EQ(*x, 7);
    *problem = programs.problem();
    return programs.costs();
  }

  std::shared_ptr<const Device> device_;
};

TEST_F(OpenclPrograms, SayWhatTheDriverSaysOfAnError) {
  Programs programs(device_, "");
  try {
    programs.build("__kernel void broken(__global int* x) { x[0] = unheard_of; }", "broken", "");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("unheard_of"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("'broken'"), std::string::npos) << error.what();
  }
}

TEST_F(OpenclPrograms, AKernelThatIsNotThereIsASentence) {
  Programs programs(device_, "");
  const Program program = programs.build(kCount, "count", "");
  EXPECT_THROW(BoundKernel(device_, program, "other"), Error);
}

TEST_F(OpenclPrograms, AreKeptAndCompiledAgainWhereTheyAreDamaged) {
  const test::TempFolder folder;
  const std::string kept = folder.file("kept");
  std::string problem;
  const auto expect = [&](int n_compiled, int n_imported, bool is_damaged) {
    const ProgramCosts costs = count(kept, &problem);
    EXPECT_EQ(costs.n_compiled, n_compiled);
    EXPECT_EQ(costs.n_imported, n_imported);
    EXPECT_EQ(problem.find("damaged") != std::string::npos, is_damaged) << problem;
  };
  expect(1, 0, false);
  expect(0, 1, false);
  for (const fs::directory_entry& entry : fs::directory_iterator(kept)) {
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(entry.file_size() / 2));
    file.put('\x5a').put('\xa5').put('\x5a');
  }
  expect(1, 0, true);
  for (const fs::directory_entry& entry : fs::directory_iterator(kept)) {
    fs::resize_file(entry.path(), 20);
  }
  expect(1, 0, true);
  expect(0, 1, false);
}

TEST_F(OpenclPrograms, AFolderThatCannotBeWrittenIsNoted) {
  const test::TempFolder folder;
  write_file(folder.file("taken"), "");
  std::string problem;
  EXPECT_EQ(count(folder.file("taken"), &problem).n_compiled, 1);
  EXPECT_NE(problem.find("not kept"), std::string::npos) << problem;
}

TEST_F(OpenclPrograms, SharedMemoryIsFoundByItsAddresses) {
  SharedMemory memory(device_);
  std::byte* const a = memory.allocate(4096);
  std::byte* const b = memory.allocate(100);
  ASSERT_NE(a, nullptr);
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(memory.locate(a + 4095).offset_bytes, 4095u);
  EXPECT_EQ(memory.locate(a + 4).buffer, memory.locate(a).buffer);
  EXPECT_NE(memory.locate(b).buffer, memory.locate(a).buffer);
  EXPECT_EQ(memory.locate(&memory).buffer, nullptr);
  EXPECT_NE(memory.locate(a).buffer, nullptr);
  memory.free(a);
  EXPECT_EQ(memory.locate(a).buffer, nullptr);
}

}  // namespace
}  // namespace troika::lanes::opencl
