// Two layouts of the same weights with one copy in memory (D1): prompts want one, steps of a few
// tokens another. While a prompt runs, blocks of the model change their layout one by one, from the
// last one backwards, and each load hides behind the blocks that are computed meanwhile. Nothing
// ever waits for a load: a block is computed in the layout that it has, and layouts give equal
// results.
//
// LayoutSwitch says what to load and when, and knows neither lanes nor bytes nor time. Whoever
// computes tells it before each block; whoever loads tells it when a load has ended. One thread at
// a time uses it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace troika::schedule {

// Sums of the same times in a different order differ by less than this.
inline constexpr double kSameUs = 1e-6;

enum class Layout : uint8_t { kPrompt, kStep };

// The times of one block, as they were profiled.
struct BlockTimes {
  double prompt_us = 0.0;  // time to compute a chunk in the prompt's layout
  // Time to compute the same chunk in the step's layout: in sub-chunks, one after the other.
  double step_us = 0.0;
  double load_prompt_us = 0.0;  // time to bring the block into the prompt's layout
  double load_step_us = 0.0;

  double compute_us(Layout layout) const { return layout == Layout::kPrompt ? prompt_us : step_us; }
  double load_us(Layout into) const {
    return into == Layout::kPrompt ? load_prompt_us : load_step_us;
  }
};

struct BlockLoad {
  int block = 0;
  Layout into = Layout::kStep;
  bool operator==(const BlockLoad&) const = default;
};

// Sums up what loads have taken.
struct LoadCounters {
  int64_t n_loads = 0;       // counts loads into the layout of steps
  int64_t n_loads_back = 0;  // counts loads into the layout of prompts
  double load_us = 0.0;      // sums up the times from a load's begin to its end
  double wait_us = 0.0;      // sums up the times in which passes stood still for loads
};

// The plan of what happens while a prompt runs.
struct SwitchPlan {
  // The way back: this many blocks, the first ones, change to the prompt's layout before anything
  // else. They are the first ones because these are the last to leave it again.
  int n_back = 0;
  // Counts the blocks, of all chunks, that are computed before the first load into the step's
  // layout; the paper's schedule has 0. Chunks times blocks, or more: loads begin when the prompt
  // is over.
  int start = 0;
  bool operator==(const SwitchPlan&) const = default;
};

// Returns, by eq. (2), the least number of blocks whose computation takes as long as a load: blocks
// from `first` on, going round behind the last one. REQUIRES: some block takes time.
int covering_blocks(const std::vector<BlockTimes>& times, const std::vector<Layout>& layouts,
                    int first, double load_us);

class LayoutSwitch {
 public:
  explicit LayoutSwitch(std::vector<BlockTimes> times, Layout now = Layout::kPrompt);
  LayoutSwitch(std::vector<BlockTimes> times, std::vector<Layout> now);

  int n_blocks() const { return static_cast<int>(layouts_.size()); }
  // Returns the layout in which a block is computed now; only `loaded` changes it.
  Layout layout(int block) const { return layouts_[static_cast<size_t>(block)]; }
  const std::vector<Layout>& layouts() const { return layouts_; }
  const std::vector<BlockTimes>& times() const { return times_; }
  // Says what blocks are expected to take from now on.
  void expect(std::vector<BlockTimes> times);
  // Says whether every block has the step's layout, and no load is in flight.
  bool is_done() const;
  // Returns the load in flight: only of its block there are two copies.
  const std::optional<BlockLoad>& loading() const { return loading_; }

  // Begins a prompt with a plan. A load in flight goes on.
  void follow(const SwitchPlan& plan);
  // Is called before each block of each pass, of prompts and of steps. If it returns a load, that
  // load is in flight from now on. Its block may be computed meanwhile, in the layout that it has.
  std::optional<BlockLoad> before_block(int block);
  // Is called before a block that can only be computed in the step's layout, because prompts'
  // layout is rounded. Whoever computes waits, and asks again after each load until the block has
  // that layout. Blocks then change in the order in which they are met.
  std::optional<BlockLoad> before_step(int block);
  // Is told that the load in flight has ended. REQUIRES: there is one.
  void loaded();
  // Is told that the load in flight has failed: its block keeps its layout. REQUIRES: there is one.
  void failed();

 private:
  std::optional<BlockLoad> next_load(int block) const;

  std::vector<BlockTimes> times_;
  std::vector<Layout> layouts_;
  SwitchPlan plan_;
  int n_computed_ = 0;  // counts blocks since the prompt began
  std::optional<BlockLoad> loading_;
};

// What a plan leads to if everything takes as long as profiled.
struct SwitchForecast {
  struct Load {
    BlockLoad load;
    int begin = 0;  // counts blocks that were computed before the load
    int k = 0;      // counts blocks that were computed during the load: k of eq. (2)
    double begin_us = 0.0, end_us = 0.0;
  };
  std::vector<Load> loads;   // all loads, also those after the prompt's end, one after the other
  double prompt_us = 0.0;    // end of the prompt
  double switched_us = 0.0;  // end of the last load
  bool is_finished = false;  // when the prompt ends, all blocks have the step's layout

  // Returns what the paper minimises.
  double latency_us() const { return prompt_us > switched_us ? prompt_us : switched_us; }
};
SwitchForecast forecast(const std::vector<BlockTimes>& times, const std::vector<Layout>& layouts,
                        int n_chunks, const SwitchPlan& plan);

}  // namespace troika::schedule
