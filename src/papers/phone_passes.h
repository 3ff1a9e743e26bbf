// Passes of a model on a virtual phone in time only: of chunks, of single blocks, of drafts that
// are verified, at any place of a text; and prompts during which the blocks change their layout
// (D1). The executables are those of every other pass; only the list of tasks is taken block by
// block, which is what a change between two blocks needs.
//
// Executables of prompts can come from an engine of their own: another software on the same phone.
#pragma once

#include <vector>

#include "cache/kv_cache.h"
#include "engine/engine.h"
#include "lanes/virtual/virtual_phone.h"
#include "schedule/layout_switch.h"

namespace troika::papers {

struct PhoneCost {
  double seconds = 0.0;
  double joules = 0.0;
  double cpu_busy_s = 0.0;  // of the seconds, those in which the CPU had a task

  PhoneCost& operator+=(const PhoneCost& other) {
    seconds += other.seconds;
    joules += other.joules;
    cpu_busy_s += other.cpu_busy_s;
    return *this;
  }
  PhoneCost operator*(double n) const { return {n * seconds, n * joules, n * cpu_busy_s}; }
};

// A prompt during which the layout changed.
struct SwitchedPrompt {
  PhoneCost cost;                 // up to the end of the prompt
  std::vector<PhoneCost> chunks;  // of it, each chunk
  double switched_s = 0.0;        // when the last load ended that began within the prompt
  int n_switched = 0;             // blocks in the step's layout when the prompt ended
};

class PhonePasses {
 public:
  // `prompts` runs passes of as many tokens as its chunk is long; without it `engine` runs all.
  // REQUIRES: both run on a phone and compute no values. They must outlive this.
  explicit PhonePasses(engine::Engine& engine, engine::Engine* prompts = nullptr);

  // A prompt in chunks of `shape` tokens, one after the other, and the logits of its last token.
  PhoneCost prompt(int n_tokens, int shape);
  // One pass over `n_rows` tokens behind `n_past`, and logits of all of them.
  PhoneCost pass(int n_rows, int n_past);
  // The same of the first block and the head alone: what a draft model is taken to be.
  PhoneCost block_and_head(int n_rows, int n_past);

  // What a change of layouts is planned with: chunks of `prompt_shape` tokens, and the same tokens
  // as sub-chunks of `step_shape`, in the middle of a text of n_tokens.
  std::vector<schedule::BlockTimes> profile(int n_tokens, int prompt_shape, int step_shape);
  // A prompt during which `layouts` follows its plan; loads take what it was profiled with. Two
  // rows of a trace, blocks and flash, if wanted.
  SwitchedPrompt switched_prompt(int n_tokens, int prompt_shape, int step_shape,
                                 schedule::LayoutSwitch* layouts, Trace* trace = nullptr);
  // To load a block: its weights from flash, and its part of creating a graph.
  double block_load_us() const;

 private:
  template <typename Run>
  PhoneCost timed(const Run& run);
  // Which engine has the executables for a pass of so many tokens.
  engine::Engine& engine_of(int shape);
  // Only one of the engines works at a time, so that their times add up.
  double now_us() const;
  lanes::Run rows(int n_rows, int n_past);
  // Tasks before the blocks, of a block, and behind them are those of `block` -1, i and n.
  void run_block(int shape, int block, int n_rows, int n_past);
  void run_block_in_layout(schedule::Layout layout, int prompt_shape, int step_shape, int block,
                           int n_rows, int n_past);
  void run_head(int n_rows);

  engine::Engine& engine_;
  engine::Engine* prompts_;  // may be null
  int n_blocks_;
  std::vector<cache::Slot> slots_;
  std::vector<cache::VisibleSlots> visible_;
};

}  // namespace troika::papers
