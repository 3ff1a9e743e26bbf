// Tasks that a device does not finish: its driver refuses them, or a kernel ends in an error. The
// lane says so, whoever tells of ends.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>

#include "kernels/choose.h"
#include "lanes/machine.h"
#include "lanes/opencl/opencl_lane.h"
#include "lanes/opencl/test_support.h"

namespace troika::lanes::opencl {
namespace {

constexpr plan::Shape kSmallStep = {plan::Phase::kStep, SmallGraph::kMostTokens};

constexpr int kKernelsOfBlock = 6;

std::atomic<int> n_kernels_left;
decltype(Api::run_kernel) real_run_kernel;
decltype(Api::event_info) real_event_info;

// The parameter says whether drivers tell of ends (H8).
class OpenclLostDevices : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    found_ = find_device();
    if (found_.device == nullptr) GTEST_SKIP() << found_.problem;
  }
  // Returns a device that starts kernels, and tells of events, so. Null: as it does.
  std::shared_ptr<const Device> device_with(decltype(Api::run_kernel) run_kernel,
                                            decltype(Api::event_info) event_info = nullptr) const {
    Api api = found_.device->api();
    real_run_kernel = api.run_kernel;
    api.run_kernel = run_kernel;
    real_event_info = api.event_info;
    if (event_info != nullptr) api.event_info = event_info;
    return std::make_shared<const Device>(std::make_shared<const Library>(api), 0);
  }
  DeviceOptions options() const {
    DeviceOptions options = found_.options;
    options.has_fast_handover = GetParam();
    return options;
  }

  FoundDevice found_;
  const kernels::Kernels kernels_ = kernels::choose(detect_cpu_features());
};
INSTANTIATE_TEST_SUITE_P(H8, OpenclLostDevices, testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "DriversTell" : "LanesWait");
});

// A device is lost while tasks run: its driver refuses everything from then on.
Int run_kernel_until_lost(Queue queue, Kernel kernel, UInt n, const size_t* first,
                          const size_t* sizes, const size_t* together, UInt n_events,
                          const Event* events, Event* event) {
  constexpr Int kLost = -5;
  if (n_kernels_left.fetch_sub(1) <= 0) return kLost;
  return real_run_kernel(queue, kernel, n, first, sizes, together, n_events, events, event);
}

TEST_P(OpenclLostDevices, ALostDeviceFailsItsTasksAndSaysWhy) {
  const auto device = device_with(run_kernel_until_lost);
  OpenclLane lane(device, options(), kernels_.table, {});
  SmallGraph graph = SmallGraph::block(tensor::Type::kQ8_0, 256, 512);
  GraphRun run(lane, graph);
  const auto executable = lane.build(graph.subgraph(), kSmallStep, graph.store(), run.buffers());
  const lanes::Run arguments = run.arguments(plan::Phase::kStep, 3, 0);
  for (const int n_left : {0, 3, 9}) {
    n_kernels_left = n_left;
    lanes::Ended ended[3];
    for (lanes::Ended& one : ended) lane.submit(*executable, arguments, one);
    for (lanes::Ended& one : ended) one.latch.wait();
    EXPECT_EQ(ended[0].status, n_left < kKernelsOfBlock ? Status::kFailed : Status::kDone);
    EXPECT_EQ(ended[1].status, Status::kFailed);
    EXPECT_EQ(ended[2].status, Status::kFailed);
    EXPECT_NE(lane.problem().find("CL_OUT_OF_RESOURCES"), std::string::npos) << lane.problem();
  }
  n_kernels_left = 1000;
  lanes::Ended again;
  lane.submit(*executable, arguments, again);
  again.latch.wait();
  EXPECT_EQ(again.status, Status::kDone);
}

// One kernel ends in an error, and later ones run: the driver starts all of them, and says so only
// of that kernel's event.
std::atomic<Event> spoilt = nullptr;

Int run_kernel_that_is_spoilt(Queue queue, Kernel kernel, UInt n, const size_t* first,
                              const size_t* sizes, const size_t* together, UInt n_events,
                              const Event* events, Event* event) {
  const Int status =
      real_run_kernel(queue, kernel, n, first, sizes, together, n_events, events, event);
  if (n_kernels_left.fetch_sub(1) == 0) spoilt = *event;
  return status;
}

Int event_info_of_spoilt(Event event, UInt what, size_t room, void* to, size_t* length) {
  const Int status = real_event_info(event, what, room, to, length);
  const Int state = -5;
  // It is asked once, and then another event may have its address.
  if (spoilt.compare_exchange_strong(event, nullptr)) std::memcpy(to, &state, sizeof(state));
  return status;
}

TEST_P(OpenclLostDevices, AKernelThatEndsInAnErrorFailsItsTaskAlone) {
  const auto device = device_with(run_kernel_that_is_spoilt, event_info_of_spoilt);
  OpenclLane lane(device, options(), kernels_.table, {});
  SmallGraph graph = SmallGraph::block(tensor::Type::kQ8_0, 256, 512);
  GraphRun run(lane, graph);
  const auto executable = lane.build(graph.subgraph(), kSmallStep, graph.store(), run.buffers());
  const lanes::Run arguments = run.arguments(plan::Phase::kStep, 3, 0);
  for (const int n_left : {0, 3, 5, 6, 11}) {
    n_kernels_left = n_left;
    lanes::Ended ended[3];
    for (lanes::Ended& one : ended) lane.submit(*executable, arguments, one);
    for (lanes::Ended& one : ended) one.latch.wait();
    EXPECT_EQ(ended[0].status, n_left < kKernelsOfBlock ? Status::kFailed : Status::kDone)
        << n_left;
    EXPECT_EQ(ended[1].status, n_left < kKernelsOfBlock ? Status::kDone : Status::kFailed)
        << n_left;
    EXPECT_EQ(ended[2].status, Status::kDone) << n_left;
    EXPECT_NE(lane.problem().find("a task failed on it"), std::string::npos) << lane.problem();
  }
}

}  // namespace
}  // namespace troika::lanes::opencl
