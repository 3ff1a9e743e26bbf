// Where a driver tells of ends (H8): tasks end in their order, and the driver is never called from
// its own call but to ask how kernels ended and to let go of events. The driver is made up here, so
// that the thread sanitizer can see into it.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/choose.h"
#include "lanes/machine.h"
#include "lanes/opencl/opencl_lane.h"
#include "lanes/opencl/test_support.h"

namespace troika::lanes::opencl {
namespace {

thread_local bool is_in_call_back = false;
std::atomic<int> n_wrong_calls = 0, n_live_events = 0;

void note_call() { n_wrong_calls += is_in_call_back ? 1 : 0; }

template <typename Handle>
Handle some_handle(Int* status) {
  note_call();
  if (status != nullptr) *status = kOk;
  return reinterpret_cast<Handle>(uintptr_t{1});
}

template <typename... Arguments>
Int accept(Arguments...) {
  note_call();
  return kOk;
}

// Everything is answered with this number, texts with an empty one but for the version.
Int describe_made_up(UInt what, size_t room, void* to, size_t* length) {
  const char* const text = what == kDeviceVersion ? "OpenCL 3.0" : "";
  const bool is_number = what != kDeviceName && what != kDeviceVersion && what != kDriverVersion;
  if (length != nullptr) *length = is_number ? sizeof(uint64_t) : std::strlen(text) + 1;
  if (to == nullptr) return kOk;
  std::memset(to, 0, room);
  if (is_number) {
    static_cast<unsigned char*>(to)[0] = 1;
  } else {
    std::memcpy(to, text, std::min(room, std::strlen(text) + 1));
  }
  return kOk;
}

// Makes a driver whose tasks end at once: it tells so before `tell` returns.
Api made_up_driver() {
  Api api = {};
  api.platforms = [](UInt, Platform* platforms, UInt* n) {
    if (n != nullptr) *n = 1;
    if (platforms != nullptr) *platforms = some_handle<Platform>(nullptr);
    return kOk;
  };
  api.platform_info = [](Platform, UInt, size_t room, void* to, size_t* length) {
    return describe_made_up(kDeviceName, room, to, length);
  };
  api.devices = [](Platform, Bits, UInt, DeviceId* ids, UInt* n) {
    if (n != nullptr) *n = 1;
    if (ids != nullptr) *ids = some_handle<DeviceId>(nullptr);
    return kOk;
  };
  api.device_info = [](DeviceId, UInt what, size_t room, void* to, size_t* length) {
    return describe_made_up(what, room, to, length);
  };
  api.create_context = [](const intptr_t*, UInt, const DeviceId*, ContextProblem, void*,
                          Int* status) { return some_handle<Context>(status); };
  api.create_queue = [](Context, DeviceId, Bits, Int* status) {
    return some_handle<Queue>(status);
  };
  api.release_context = accept<Context>;
  api.release_queue = accept<Queue>;
  api.flush = accept<Queue>;
  api.finish = accept<Queue>;
  api.create_buffer = [](Context, Bits, size_t bytes, void*, Int* status) {
    some_handle<Buffer>(status);
    return reinterpret_cast<Buffer>(new std::byte[bytes]);
  };
  api.release_buffer = [](Buffer buffer) {
    delete[] reinterpret_cast<std::byte*>(buffer);
    return accept(buffer);
  };
  api.map = [](Queue, Buffer buffer, UInt, Bits, size_t, size_t, UInt, const Event*, Event*,
               Int* status) {
    some_handle<Buffer>(status);
    return reinterpret_cast<void*>(buffer);
  };
  api.unmap = accept<Queue, Buffer, void*, UInt, const Event*, Event*>;
  api.marker = [](Queue, UInt, const Event*, Event* event) {
    ++n_live_events;
    *event = some_handle<Event>(nullptr);
    return kOk;
  };
  api.tell = [](Event event, Int, void (*told)(Event, Int, void*), void* user) {
    note_call();
    is_in_call_back = true;
    told(event, kComplete, user);
    is_in_call_back = false;
    return kOk;
  };
  api.release_event = [](Event) {
    --n_live_events;
    return kOk;
  };
  return api;
}

// The slot of the task that is told of next may be written while the lane looks for more ends to
// tell.
TEST(OpenclQueue, H8TellsOfEndsInOrderWhileTheNextTasksAreSubmitted) {
  const kernels::Kernels kernels = kernels::choose(detect_cpu_features());
  DeviceOptions options;
  options.has_fast_handover = true;
  struct Told : Completion {
    void finished(Status status) override {
      is_right = status == Status::kDone && *n == place;
      ++*n;
      latch.open();
    }
    int* n = nullptr;
    int place = 0;
    bool is_right = false;
    Latch latch;
  };
  {
    OpenclLane lane(
        std::make_shared<const Device>(std::make_shared<const Library>(made_up_driver()), 0),
        options, kernels.table, {plan::Activations::kF32, plan::Prefill::kInt8});
    // Cores compute the sum at the end of the block for the lane.
    SmallGraph graph = SmallGraph::block(tensor::Type::kQ8_0, 256, 512);
    GraphRun run(lane, graph);
    Subgraph subgraph = graph.subgraph();
    subgraph.ops = subgraph.ops.subspan(5, 1);
    const auto executable = lane.build(subgraph, {plan::Phase::kPrompt, SmallGraph::kMostTokens},
                                       graph.store(), run.buffers());
    run.fill(0);
    const lanes::Run arguments = run.arguments(plan::Phase::kPrompt, 2, 0);
    int n_told = 0;  // only the lane writes it, and the latch of the last task shows it
    constexpr int kRounds = 200;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<Told> told(static_cast<size_t>(lane.info().queue_depth));
      for (size_t i = 0; i < told.size(); ++i) {
        told[i].n = &n_told;
        told[i].place = round * static_cast<int>(told.size()) + static_cast<int>(i);
      }
      for (Told& one : told) lane.submit(*executable, arguments, one);
      for (Told& one : told) one.latch.wait();
      for (const Told& one : told) ASSERT_TRUE(one.is_right) << round << ": " << lane.problem();
    }
  }
  EXPECT_EQ(n_wrong_calls, 0);
  EXPECT_EQ(n_live_events, 0);
}

}  // namespace
}  // namespace troika::lanes::opencl
