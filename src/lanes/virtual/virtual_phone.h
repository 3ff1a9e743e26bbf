// A whole virtual phone as a machine: a lane for each wanted processor, on one bus (V1), and the
// energy that the lanes take (V5).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lanes/virtual/cost.h"
#include "lanes/virtual/virtual_flash.h"
#include "lanes/virtual/virtual_lane.h"
#include "lanes/virtual/virtual_machine.h"

namespace troika::lanes {

// Throws UsageError for any name but "cpu", "gpu" and "npu".
Processor processor_from_name(const std::string& name);
// Reads a list like "cpu;npu". Throws UsageError for what is no processor, or stands twice.
std::vector<Processor> processors_from_text(const std::string& text);

// Reads a text like "middle=1" or "prime=1,middle=3". Throws UsageError for other texts.
Cores cores_from_text(const std::string& text);

std::vector<Processor> all_processors();

struct PhoneOptions {
  std::vector<Processor> lanes = all_processors();
  // Whether lanes share buffers and poll on a flag (H8), or synchronise as the system does.
  bool has_fast_handover = true;
  bool has_group_scales = false;  // the NPU's products have scales for groups
  // The NPU takes products in the fastest of equivalent shapes (N8).
  bool has_square_shapes = false;
  int queue_depth = 1;  // how many tasks the queues of the GPU and the NPU take
  // The cost model of other software that runs prompts; null: there is one for all. It must outlive
  // the phone.
  const CostModel* prompts = nullptr;
  bool prompts_have_square_shapes = false;
  // Where it is more than 0, graphs of prompts and of steps change while prompts run (D1), and a
  // block without its prompt graphs computes a chunk in parts of part_rows rows.
  int part_rows = 0;
  // The share of time for which each lane may be busy (H14); empty: all of the time.
  std::vector<double> busy_shares = {};
  // A game draws on the GPU beside the model, as the phone's file says (H14).
  bool has_rendering = false;
  // Where it is more than 0, the flash is a lane behind the processors, whose queue takes this
  // number of tasks (P).
  int flash_queue = 0;
  Cores flash_core = {1, 0, 0};  // the one core that asks for reads
};

// What happened up to a moment; the difference of two is what happened between them.
struct PhoneUse {
  double now_us = 0.0;
  std::vector<double> busy_us;  // for each lane
  // The time for which each lane took its power, counted by the share of it.
  std::vector<double> powered_us;
  double outside_us = 0.0;  // how long a CPU that is no lane worked in the background
  double polled_us = 0.0;   // how long a core polled for lanes that waited
  Frames frames;
  double flash_us = 0.0;        // the time in which the flash had a task
  double flash_alone_us = 0.0;  // the part of `flash_us` in which no processor had one
  double bytes = 0.0;           // what processors moved over the bus
};

class VirtualPhone : public Machine {
 public:
  // `values` runs every task for its values; null: nothing is computed. The model must outlive the
  // phone.
  VirtualPhone(const CostModel& model, const PhoneOptions& options, std::unique_ptr<Lane> values);

  // Returns the processors, and behind them the flash where it is a lane of passes.
  std::span<Lane* const> lanes() const override {
    return machine_.lanes().first(processors_.size() + (options_.flash_queue > 0 ? 1 : 0));
  }
  size_t n_processors() const { return processors_.size(); }
  const Clock& clock() const override { return machine_.clock(); }
  void wait(const Latch& latch) override { machine_.wait(latch); }

  const CostModel& model() const { return model_; }
  const PhoneOptions& options() const { return options_; }
  // Returns null unless options().part_rows or flash_queue is set.
  VirtualFlash* flash() const { return flash_.get(); }
  // Says for each block whether it runs in parts. REQUIRES: options().part_rows is set.
  std::vector<char>& blocks_in_parts() { return forms_.is_in_parts; }
  // Adds work of the CPU for which no task waits: it passes while the CPU has no task.
  void add_background(double us);
  void finish_background();
  PhoneUse use() const;
  // Returns how long a processor had a task; 0 where the phone has no such lane.
  double busy_us(Processor processor, const PhoneUse& from, const PhoneUse& to) const;
  // Returns the energy: the power of each lane while it was busy and while it waited, and that of
  // the rest of the phone all the time. Where neurons are computed by fewer cores than the lane
  // has, the others wait, and while the flash reads for passes, one of them asks. A small core that
  // asks comes on top, and so does the one that polls before fast handovers.
  double energy_j(const PhoneUse& from, const PhoneUse& to) const;

 private:
  int cpu_lane() const;  // -1: the CPU is no lane
  bool lane_asks() const;

  const CostModel& model_;
  PhoneOptions options_;
  std::vector<Processor> processors_;
  std::unique_ptr<Lane> values_;
  VirtualMachine machine_;
  BlockForms forms_;
  std::vector<std::unique_ptr<VirtualLane>> owned_;
  std::unique_ptr<VirtualFlash> flash_;
};

}  // namespace troika::lanes
