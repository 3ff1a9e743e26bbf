// Two layouts of the same weights with one copy in memory (D1): prompts want one, steps of a few
// tokens another. While a prompt runs, blocks of the model go over one by one, from the last one
// backwards, and each load hides behind the blocks that are computed meanwhile. Nothing ever waits
// for a load: a block is computed in the layout that it has, and layouts give equal results.
//
// It says what to load and when, and knows neither lanes nor bytes nor time: who computes tells it
// before each block, and who loads tells it when a load has ended. Not for several threads at once.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace troika::schedule {

enum class Layout : uint8_t { kPrompt, kStep };

// The times of one block, as profiled.
struct BlockTimes {
  double prompt_us = 0.0;       // to compute a chunk in the prompt's layout
  double step_us = 0.0;         // the same chunk in the step's: sub-chunks, one after the other
  double load_prompt_us = 0.0;  // to bring the block in the prompt's layout
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

// What happens while a prompt runs.
struct SwitchPlan {
  // The way back: so many blocks, the first ones, go to the prompt's layout before anything else.
  // The first ones, because they are the last to leave it again.
  int n_back = 0;
  // Blocks that are computed before the first load into the step's layout; the paper's schedule
  // begins at 0. Chunks times blocks or more: when the prompt is over.
  int start = 0;
  bool operator==(const SwitchPlan&) const = default;
};

// Eq. (2): the least number of blocks from `first` on, going round behind the last one, whose
// computation takes as long as a load. REQUIRES: some block takes time.
int covering_blocks(const std::vector<BlockTimes>& times, const std::vector<Layout>& layouts,
                    int first, double load_us);

class LayoutSwitch {
 public:
  explicit LayoutSwitch(std::vector<BlockTimes> times, Layout now = Layout::kPrompt);
  LayoutSwitch(std::vector<BlockTimes> times, std::vector<Layout> now);

  int n_blocks() const { return static_cast<int>(layouts_.size()); }
  // What a block is computed in now; only `loaded` changes it.
  Layout layout(int block) const { return layouts_[static_cast<size_t>(block)]; }
  const std::vector<Layout>& layouts() const { return layouts_; }
  const std::vector<BlockTimes>& times() const { return times_; }
  // What blocks are expected to take from now on.
  void expect(std::vector<BlockTimes> times);
  // Every block has the step's layout, and none is on its way.
  bool is_done() const;
  // The block whose load is in flight: the only one of which there are two copies.
  const std::optional<BlockLoad>& loading() const { return loading_; }

  // A prompt begins. A load in flight goes on.
  void follow(const SwitchPlan& plan);
  // Called before each block of each pass, of prompts and of steps: where a load shall begin now,
  // it is in flight from now on. The block that it names may be computed meanwhile, as it is.
  std::optional<BlockLoad> before_block(int block);
  // Is asked before a block that can be computed in the step's layout only, where that of prompts
  // is rounded: whoever computes waits, asking again after each load, until the block has it.
  // Blocks then go over in the order in which they are met.
  std::optional<BlockLoad> before_step(int block);
  // The load in flight has ended. REQUIRES: there is one.
  void loaded();
  // It came to nothing: the block keeps its layout. REQUIRES: there is one.
  void failed();

 private:
  std::optional<BlockLoad> next_load(int block) const;

  std::vector<BlockTimes> times_;
  std::vector<Layout> layouts_;
  SwitchPlan plan_;
  int n_computed_ = 0;  // blocks since the prompt began
  std::optional<BlockLoad> loading_;
};

// What a plan comes to if everything takes as long as profiled.
struct SwitchForecast {
  struct Load {
    BlockLoad load;
    int begin = 0;  // blocks that were computed before
    int k = 0;      // blocks that were computed meanwhile; of eq. (2)
    double begin_us = 0.0, end_us = 0.0;
  };
  std::vector<Load> loads;   // those behind the prompt's end too, one behind the other
  double prompt_us = 0.0;    // end of the prompt
  double switched_us = 0.0;  // end of the last load
  bool is_finished = false;  // when the prompt ends, all blocks have the step's layout

  // What the paper minimises.
  double latency_us() const { return prompt_us > switched_us ? prompt_us : switched_us; }
};
SwitchForecast forecast(const std::vector<BlockTimes>& times, const std::vector<Layout>& layouts,
                        int n_chunks, const SwitchPlan& plan);

// The plan of least latency for a prompt of so many chunks, with the layouts as they are; of equal
// ones that which begins last. The paper's schedule is among those that are compared, so this one
// is never slower: a prompt of many chunks does not begin to switch in its first one, and a prompt
// too short to be worth the way back stays in the step's layout.
SwitchPlan plan_switch(const std::vector<BlockTimes>& times, const std::vector<Layout>& layouts,
                       int n_chunks);

}  // namespace troika::schedule
