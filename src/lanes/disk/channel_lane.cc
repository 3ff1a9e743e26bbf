#include "lanes/disk/channel_lane.h"

#include <algorithm>
#include <atomic>

#include "base/clock.h"
#include "base/error.h"

namespace troika::lanes {
namespace {

class ChannelRead : public Executable {
 public:
  ChannelRead(int n_tokens, ShadowAreas& areas) : Executable(n_tokens), areas_(areas) {}
  ShadowArea& area(int set) const { return areas_.of(set); }

 private:
  ShadowAreas& areas_;
};

}  // namespace

// The one task of the lane: it keeps what the disk is given, and whom to tell of the end.
struct ChannelLane::UnderWay : Completion {
  void finished(Status status) override {
    area->read_end_us = RealClock().now_us();
    area->counters.read_us += area->read_end_us - start_us;
    has_found_damage = status == Status::kDone && !is_intact(*area);
    if (has_found_damage) status = Status::kFailed;
    completion->finished(status);
  }
  static bool is_intact(const ShadowArea& area) {
    return std::all_of(area.cold_channels.begin(), area.cold_channels.end(), [&](size_t channel) {
      return area.input->is_intact(channel, area.channels[channel]);
    });
  }

  Run run;
  ShadowArea* area = nullptr;
  double start_us = 0.0;
  Completion* completion = nullptr;
  std::atomic<bool> has_found_damage = false;
};

ChannelLane::ChannelLane(const DiskOptions& options)
    : path_(options.names.empty() ? options.files.front() : options.names.front()),
      disk_(options),
      read_(disk_.make_read()),
      under_way_(std::make_unique<UnderWay>()) {}

ChannelLane::~ChannelLane() = default;

std::string ChannelLane::problem() const {
  return under_way_->has_found_damage ? weights::damaged_column(path_) : disk_.problem();
}

std::unique_ptr<Executable> ChannelLane::build(const Subgraph& subgraph, plan::Shape shape,
                                               const weights::Store& weights,
                                               const Buffers& buffers) {
  if (subgraph.role != Role::kRead) return disk_.build(subgraph, shape, weights, buffers);
  TROIKA_ASSERT(buffers.shadow() != nullptr);
  return std::make_unique<ChannelRead>(shape.n_rows, *buffers.shadow());
}

void ChannelLane::submit(const Executable& executable, const Run& run, Completion& completion) {
  ShadowArea& area = static_cast<const ChannelRead&>(executable).area(run.buffer_set);
  if (area.reads.empty()) {
    completion.finished(Status::kDone);
    return;
  }
  area.counters.n_reads += area.reads.size();
  for (const ReadRequest& read : area.reads) area.counters.read_bytes += read.bytes;
  under_way_->run.reads = area.reads;
  under_way_->area = &area;
  under_way_->start_us = RealClock().now_us();
  under_way_->completion = &completion;
  disk_.submit(*read_, under_way_->run, *under_way_);
}

}  // namespace troika::lanes
