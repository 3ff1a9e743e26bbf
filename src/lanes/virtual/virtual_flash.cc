#include "lanes/virtual/virtual_flash.h"

#include <fmt/format.h>

#include "base/error.h"

namespace troika::lanes {
namespace {

class FlashTask : public Executable {
 public:
  FlashTask() : Executable(0) {}
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
  machine.add_lane(this);
}

std::unique_ptr<Executable> VirtualFlash::build(const Subgraph& subgraph, plan::Shape,
                                                const weights::Store&, const Buffers&) {
  throw Error(
      fmt::format("Flash computes nothing, but '{}' was placed on it. Place it on another "
                  "lane.",
                  subgraph.name));
}

std::unique_ptr<Executable> VirtualFlash::make_read() const {
  return std::make_unique<FlashTask>();
}

double VirtualFlash::read_us(std::span<const ReadRequest> reads) const {
  double us = 0.0;
  for (size_t i = 0; i < reads.size(); ++i) {
    FlashRead read;
    read.request_bytes = static_cast<int64_t>(reads[i].bytes);
    read.is_sequential = i > 0 && reads[i].file == reads[i - 1].file &&
                         reads[i].offset == reads[i - 1].offset + reads[i - 1].bytes;
    read.range_bytes = options_.range_bytes;
    read.is_alone = reads.size() == 1;
    read.core_ghz = options_.core_ghz;
    read.has_several_cores = options_.has_several_cores;
    us += model_.flash_us(read);
  }
  return us;
}

void VirtualFlash::submit(const Executable&, const Run& run, Completion& completion) {
  Status status = Status::kDone;
  if (options_.values != nullptr) {
    Ended brought;
    const FlashTask task;
    options_.values->submit(task, run, brought);
    brought.latch.wait();
    status = brought.status;
  }
  machine_.start(index_, {read_us(run.reads), 0.0, 0.0}, status, completion);
}

}  // namespace troika::lanes
