// Loads blocks whose weights change their layout on this machine (D1): int8 panels for prompts, the
// file's blocks for steps (with 16 rows side by side where kernels read that), one copy in memory.
// `schedule::LayoutSwitch` says what to load and when; here a thread loads, while lanes compute.
// Rows come from the file, past the page cache, which would keep a second copy otherwise. Panels
// are made from the rows that the block has.
//
// Prompts read either layout, with equal results, and wait for nothing. Steps read rows only,
// because panels are rounded: where a prompt was too short for all blocks to change, its first step
// waits for the others, block by block.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/progress.h"
#include "gguf/file.h"
#include "lanes/disk/disk_lane.h"
#include "prepare/options.h"
#include "prepare/streaming/model_disk.h"
#include "schedule/layout_switch.h"
#include "schedule/runner.h"
#include "weights/switched_blocks.h"

namespace troika::prepare {

// Puts the options' layouts into the plan, also where they are there already. Returns whether
// weights change their layout; throws UsageError where the plan's prompts cannot have what was
// asked for.
bool apply_layouts(const Options& options, plan::Plan* plan);

class LayoutLoader : public schedule::PromptWatch {
 public:
  struct Counters : schedule::LoadCounters {
    uint64_t read_bytes = 0;
    uint64_t n_buffered_reads = 0;  // counts reads through the page cache
  };

  // The file and the blocks must outlive this. Throws Error where the file cannot be opened again.
  LayoutLoader(const gguf::File& file, weights::SwitchedBlocks& blocks, int n_threads,
               const DiskWay& way = {});
  ~LayoutLoader() override;

  // Brings all blocks into the layout of prompts, and measures loads. Is called once, at first.
  void load_all(const ProgressFunction& progress);

  // The functions from here on are called by the thread that holds the pass mutex.
  void plan_prompt(int n_tokens, int chunk, bool is_first) override;
  // Makes `plan` take the place of what would be planned from now on. Tests choose moments of
  // changes so.
  void force_plan(std::optional<schedule::SwitchPlan> plan) { forced_ = plan; }
  void before_block(int block, plan::Phase phase, int n_tokens,
                    const schedule::RowsBeside& rows) override;
  void after_blocks(const schedule::RowsBeside& rows) override;

  // Counts loads that are finished.
  const Counters& counters() const { return counters_; }
  const weights::SwitchedBlocks& blocks() const { return blocks_; }
  const schedule::LayoutSwitch& layouts() const { return switch_; }
  // Returns the layouts in force, and how long they are expected to take for n_tokens tokens.
  std::vector<schedule::BlockTimes> times(int n_tokens) const;

 private:
  struct Learned {
    // The time of a chunk in the layout of prompts, for each token; 0: not known yet.
    double us_per_token = 0.0;
    // The time that a chunk in the layout of steps takes on top, to unpack.
    double unpack_us = 0.0;
    double load_us = 0.0, load_back_us = 0.0;
  };
  struct Job {
    schedule::BlockLoad load;
    const weights::BlockCopy* from = nullptr;
  };
  struct Made {
    std::unique_ptr<weights::BlockCopy> copy;  // null where the load failed
    std::string problem;
    double start_us = 0.0, end_us = 0.0;
    uint64_t read_bytes = 0, n_buffered_reads = 0;
  };

  void read_rows(int block, Made* made);
  Made make(const Job& job);
  void work();
  void bring_into_step_layout(int block, const schedule::RowsBeside& rows);
  void begin(const schedule::BlockLoad& load);
  void take_ended(const schedule::RowsBeside& rows);
  void wait_for_load(const schedule::RowsBeside& rows);
  void note_block_end(const schedule::RowsBeside& rows);

  const gguf::File& file_;
  weights::SwitchedBlocks& blocks_;
  int n_threads_;
  schedule::LayoutSwitch switch_;
  std::vector<Learned> learned_;
  bool was_planned_by_profile_ = false;
  std::optional<schedule::SwitchPlan> forced_;
  // The following describes the block that is being computed.
  int block_ = -1;
  int n_tokens_ = 0;
  bool is_prompt_ = false;
  // Says why the last load failed; empty: it did not. A prompt needs no load, and begins none
  // behind one that failed.
  std::string problem_;
  schedule::Layout layout_ = schedule::Layout::kPrompt;
  double block_start_us_ = 0.0;
  Counters counters_;

  lanes::DiskLane disk_;
  std::unique_ptr<lanes::Executable> read_;
  std::mutex mutex_;
  std::condition_variable wake_;   // wakes the thread that loads
  std::condition_variable ended_;  // wakes whoever waits for a load
  std::unique_ptr<Job> job_;
  std::unique_ptr<weights::BlockCopy> old_;  // the loading thread frees it before it loads anything
  Made made_;
  std::atomic<bool> has_ended_{false};
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace troika::prepare
