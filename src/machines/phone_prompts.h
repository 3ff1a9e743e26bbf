// What goes on beside the chunks of a prompt on a virtual phone. Graphs of blocks change from those
// of prompts to those of steps (D1): the phone's flash reads them over the bus that all lanes
// share. Cores that wait calibrate drafts with the prompt's logits (D2). `schedule::LayoutSwitch`
// says what to load and when; lanes compute a block by the graphs that it has.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "lanes/virtual/virtual_phone.h"
#include "schedule/graphs.h"
#include "schedule/layout_switch.h"
#include "schedule/runner.h"

namespace troika::machines {

class PhonePrompts : public schedule::PromptWatch, private lanes::Completion {
 public:
  // All arguments must outlive this object.
  PhonePrompts(const schedule::Graphs& graphs, const model::Blueprint& blueprint,
               const weights::Store& weights, lanes::VirtualPhone& phone);

  // Says whether graphs change at all.
  bool has_layouts() const { return layouts_.has_value(); }
  // REQUIRES: has_layouts().
  const schedule::LayoutSwitch& layouts() const { return *layouts_; }
  const schedule::LoadCounters& counters() const { return counters_; }
  int n_switched() const;  // counts blocks that have the graphs of steps
  // Returns the time of loading one block where nothing else reads: that of its weights, and its
  // part of making a graph. REQUIRES: has_layouts().
  double block_load_us() const;

  void plan_prompt(int n_tokens, int chunk, bool is_first) override;
  void before_block(int block, plan::Phase phase, int n_tokens,
                    const schedule::RowsBeside& rows) override;
  void after_blocks(const schedule::RowsBeside& rows) override { note_block_end(rows); }

  // Takes every block to have these graphs, as before a first prompt or after an answer.
  // Experiments call it. It does nothing where graphs do not change. REQUIRES: no load is in
  // flight.
  void assume(schedule::Layout layout);
  // Lets the cores that are used look through logits of n_positions positions of a prompt, while
  // they have no task. Where the CPU is no lane, they never have one.
  void calibrate(int n_positions);
  // Waits until all blocks have the graphs of steps and all logits have been looked through,
  // because steps begin only then. Nothing else goes on meanwhile.
  void finish(const schedule::RowsBeside& rows = {});

 private:
  void finished(lanes::Status status) override;
  std::vector<schedule::BlockTimes> profile(int n_tokens, int chunk) const;
  void begin(const schedule::BlockLoad& load);
  void take_ended(const schedule::RowsBeside& rows);
  void note_block_end(const schedule::RowsBeside& rows);

  const schedule::Graphs& graphs_;
  lanes::VirtualPhone& phone_;
  int n_blocks_;
  double create_us_ = 0.0;  // a block's part of making a graph
  std::optional<schedule::LayoutSwitch> layouts_;
  schedule::LoadCounters counters_;
  std::unique_ptr<lanes::Executable> load_task_;
  std::array<lanes::ReadRequest, 2> reads_;  // a load reads its beginning first, and then the rest
  double load_start_us_ = 0.0, load_end_us_ = 0.0;
  lanes::Latch load_latch_;
  // The block that is being computed.
  int block_ = -1;
  int n_tokens_ = 0;
  bool is_prompt_ = false;
  schedule::Layout layout_ = schedule::Layout::kPrompt;
  double block_start_us_ = 0.0;
};

}  // namespace troika::machines
