#include "lanes/virtual/virtual_flash.h"

#include <fmt/format.h>

#include "base/error.h"
#include "lanes/virtual/timed_task.h"

namespace troika::lanes {
namespace {

class FlashTask : public Executable {
 public:
  explicit FlashTask(double more_us) : Executable(0), more_us(more_us) {}
  double more_us;
};

}  // namespace

VirtualFlash::VirtualFlash(VirtualMachine& machine, const CostModel& model,
                           const FlashOptions& options)
    : machine_(machine),
      model_(model),
      options_(options),
      index_(static_cast<int>(machine.lanes().size())) {
  info_.name = "flash";
  info_.capabilities = kRead;
  info_.queue_depth = options.queue_depth;
  machine.add_lane(this);
  machine.set_queue_depth(index_, options.queue_depth);
}

std::unique_ptr<Executable> VirtualFlash::build(const Subgraph& subgraph, plan::Shape,
                                                const weights::Store&, const Buffers&) {
  throw Error(
      fmt::format("Flash computes nothing, but '{}' was placed on it. Place it on another "
                  "lane.",
                  subgraph.name));
}

std::unique_ptr<Executable> VirtualFlash::make_read(double more_us) const {
  return std::make_unique<FlashTask>(more_us);
}

double VirtualFlash::read_us(std::span<const ReadRequest> reads) const {
  double us = 0.0;
  for (size_t i = 0; i < reads.size(); ++i) {
    FlashRead read;
    read.request_bytes = static_cast<int64_t>(reads[i].bytes);
    read.is_sequential = i > 0 && reads[i].file == reads[i - 1].file &&
                         reads[i].offset == reads[i - 1].offset + reads[i - 1].bytes;
    read.is_alone = reads.size() == 1;
    read.core_ghz = options_.core_ghz;
    us += model_.flash_us(read);
  }
  return us;
}

// The bytes that are read go into memory over the bus that all lanes share.
void VirtualFlash::submit(const Executable& executable, const Run& run, Completion& completion) {
  if (const auto* timed = dynamic_cast<const TimedTask*>(&executable)) {
    machine_.start(index_, timed->cost(run), Status::kDone, completion);
    return;
  }
  double bytes = 0.0;
  for (const ReadRequest& read : run.reads) bytes += static_cast<double>(read.bytes);
  const double more_us = static_cast<const FlashTask&>(executable).more_us;
  machine_.start(index_, {more_us, read_us(run.reads), bytes}, Status::kDone, completion);
}

}  // namespace troika::lanes
