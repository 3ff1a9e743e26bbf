// Lanes keep to the cores that a plan names, also where they work on the thread that asks for a
// pass.
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "base/threads/core_set.h"
#include "engine/session.h"
#include "tests/support/tiny_engine.h"

namespace troika {
namespace {

// Notes on which cores the first worker of a lane may run.
class CoresOfWorker : public lanes::InputObserver {
 public:
  void observe(const model::Op&, const float*, int, int) override { cores = cores_of_thread(); }
  std::vector<int> cores;
};

TEST(NamedCores, TheCallersThreadKeepsToThemWhileAPassRuns) {
  const std::vector<int> before = cores_of_thread();
  if (before.size() < 2) GTEST_SKIP() << "there is one core only";
  prepare::Options options;
  options.lanes.cores = plan::lanes_from_text(std::to_string(before.back()), before);
  const test_support::TinyEngine tiny(test_support::small_model(), options);
  CoresOfWorker observer;
  engine::Watch watch;
  watch.inputs = &observer;
  tiny.session->watch(watch);
  tiny.session->prefill(std::vector<text::Token>{1, 2, 3});
  EXPECT_EQ(observer.cores, std::vector<int>{before.back()});
  EXPECT_EQ(cores_of_thread(), before);
}

}  // namespace
}  // namespace troika
