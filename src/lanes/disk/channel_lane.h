// A lane that reads the columns that an extraction asked for (N5). Reading is a task of the
// schedule, so that the product of a matrix lane runs at the same time.
#pragma once

#include <memory>
#include <string>

#include "lanes/disk/disk_lane.h"

namespace troika::lanes {

class ChannelLane : public Lane {
 public:
  // REQUIRES: `options` names one file, which has the columns. Throws Error where it cannot be
  // opened.
  explicit ChannelLane(const DiskOptions& options);
  ~ChannelLane() override;

  const LaneInfo& info() const override { return disk_.info(); }
  // Says that a column is damaged, or what the disk says.
  std::string problem() const override;
  // Throws Error for anything but reads of columns.
  std::unique_ptr<Executable> build(const Subgraph& subgraph, plan::Shape shape,
                                    const weights::Store& weights, const Buffers& buffers) override;
  // Returns at once, even where there is something to read.
  void submit(const Executable& executable, const Run& run, Completion& completion) override;

 private:
  struct UnderWay;

  std::string path_;
  DiskLane disk_;
  std::unique_ptr<Executable> read_;
  std::unique_ptr<UnderWay> under_way_;
};

}  // namespace troika::lanes
