// What the passes of an engine share. Passes of all sessions run one at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/threads/turn_mutex.h"
#include "cache/kv_cache.h"
#include "cache/sequences.h"
#include "engine/batch_runner.h"
#include "plan/ledger.h"
#include "schedule/policy.h"
#include "schedule/runner.h"

namespace troika::engine {

class Engine;

class Passes {
 public:
  // Returns the bytes of memory that are free, or freed when asked for.
  using AvailableBytes = size_t (*)();
  static size_t available_here();
  // Enters keys and values into the ledger. Engine and ledger must outlive this. REQUIRES: the
  // engine has its plan, its machine and its graphs.
  Passes(Engine& engine, plan::Ledger* ledger, AvailableBytes available = available_here);

  // Says that n_more texts more may each grow to a full context. As far as memory allows, there are
  // slots for all of them. Slots that texts may count on already stay theirs, however little memory
  // is free by now. Where it throws, nothing has changed. REQUIRES: the mutex is held.
  void count_texts(int n_more);
  // Says that n of these texts have ended. REQUIRES: the mutex is held.
  void end_texts(int n) noexcept;

  // The functions from here on may be called without the mutex.
  //
  // Returns the tag of keys and values that a pass of this phase made, of any rows. Where these may
  // be parts of tiles of sparse attention, the tag is used for nothing else.
  cache::Tag tag_of(plan::Phase phase) const;
  // Returns the tag of a position of a prompt of n_prompt tokens that is computed from `first` on.
  cache::Tag tag_at(int position, int n_prompt, int first = 0) const;
  // Returns who reads weights block by block, or changes their layouts, here or on a phone; null
  // where all blocks stay as they are.
  schedule::PromptWatch* prompt_watch() const;
  // Returns the names of a trace's rows: the machine's lanes, and two more where somebody watches
  // prompts, for what becomes of blocks and for what is read or loaded meanwhile.
  std::vector<std::string> trace_rows() const;

  // Is held during a pass, and by whoever touches a member below. Passes of several sessions take
  // turns.
  TurnMutex mutex;
  schedule::Runner runner;
  // Decides what lanes do next in a prompt of chunks.
  std::unique_ptr<schedule::Policy> chunk_policy;
  schedule::SchedulerStatistics statistics;  // counts what the policy decided
  cache::KvCache kv;                         // has the keys and values of all texts
  cache::Sequences sequences;                // knows which text uses which of them
  BatchRunner batches;                       // computes them

 private:
  void limit_slots_for(int n_texts);

  const Engine& engine_;
  plan::Ledger* ledger_;
  AvailableBytes available_bytes_;
  int n_texts_ = 0;
};

}  // namespace troika::engine
