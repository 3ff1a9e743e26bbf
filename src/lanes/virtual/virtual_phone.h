// A whole virtual phone as a machine: a lane for each processor that is wanted, on one bus (V1),
// and the energy they take (V5).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lanes/virtual/cost.h"
#include "lanes/virtual/virtual_flash.h"
#include "lanes/virtual/virtual_lane.h"
#include "lanes/virtual/virtual_machine.h"

namespace troika::lanes {

// Throws UsageError for what is none of "cpu", "gpu", "npu".
Processor processor_from_name(const std::string& name);
// "cpu;npu". Throws UsageError for what is no processor, or stands twice.
std::vector<Processor> processors_from_text(const std::string& text);

// "middle=1", "prime=1,middle=3". Throws UsageError for other texts.
Cores cores_from_text(const std::string& text);

std::vector<Processor> all_processors();

struct PhoneOptions {
  std::vector<Processor> lanes = all_processors();
  // Whether lanes share buffers and poll on a flag (H8), or synchronise as the system does.
  bool has_fast_handover = true;
  bool has_group_scales = false;   // of the NPU's products
  bool has_square_shapes = false;  // the same: the fastest of equivalent shapes (N8)
  int queue_depth = 1;             // of the GPU and of the NPU
  // Another software runs prompts; null: there is one for all. It must outlive the phone.
  const CostModel* prompts = nullptr;
  bool prompts_have_square_shapes = false;
  // More than 0: graphs of prompts and of steps change while prompts run (D1), and a block without
  // its prompt graphs computes a chunk in parts of so many rows.
  int part_rows = 0;
  // Each lane may be busy for its share of the time (H14); empty: for all of the time.
  std::vector<double> busy_shares = {};
  bool has_rendering = false;  // a game draws on the GPU meanwhile, as the phone's file says (H14)
  // More than 0: the flash is a lane behind the processors, whose queue takes so many tasks (P).
  int flash_queue = 0;
  double flash_core_ghz = 0.0;  // of the core that asks for reads; 0: the prime core
};

// What happened up to a moment; the difference of two is what happened between them.
struct PhoneUse {
  double now_us = 0.0;
  std::vector<double> busy_us;  // of each lane
  Frames frames;
  double flash_us = 0.0;        // in which the flash had a task
  double flash_alone_us = 0.0;  // of it, while no processor had one
  double bytes = 0.0;           // over the bus, by processors
};

class VirtualPhone : public Machine {
 public:
  // `values` runs every task for its values; null: nothing is computed. The model must outlive the
  // phone.
  VirtualPhone(const CostModel& model, const PhoneOptions& options, std::unique_ptr<Lane> values);

  // The processors, and behind them the flash where it is a lane of passes.
  std::span<Lane* const> lanes() const override {
    return machine_.lanes().first(processors_.size() + (options_.flash_queue > 0 ? 1 : 0));
  }
  size_t n_processors() const { return processors_.size(); }
  const Clock& clock() const override { return machine_.clock(); }
  void wait(const Latch& latch) override { machine_.wait(latch); }

  const CostModel& model() const { return model_; }
  const PhoneOptions& options() const { return options_; }
  // Null unless options().part_rows or flash_queue is set.
  VirtualFlash* flash() const { return flash_.get(); }
  // Says for each block whether it runs in parts. REQUIRES: options().part_rows is set.
  std::vector<char>& blocks_in_parts() { return forms_.is_in_parts; }
  // Work of a lane for which no task waits: it passes while there are none.
  void add_background(size_t lane, double us) {
    machine_.add_background(static_cast<int>(lane), us);
  }
  void finish_background(size_t lane) { machine_.finish_background(static_cast<int>(lane)); }
  PhoneUse use() const;
  // How long a processor had a task; 0 where the phone has no such lane.
  double busy_us(Processor processor, const PhoneUse& from, const PhoneUse& to) const;
  // Power of each lane while it was busy, of each that waited, and of the rest all the time; of the
  // core that asks for reads, its part of the CPU's while the flash reads for passes.
  double energy_j(const PhoneUse& from, const PhoneUse& to) const;

 private:
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
