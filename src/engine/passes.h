// What the passes of an engine share. Passes of all sessions run one at a time.
#pragma once

#include <memory>
#include <mutex>

#include "cache/kv_cache.h"
#include "cache/sequences.h"
#include "engine/batch_runner.h"
#include "schedule/policy.h"
#include "schedule/runner.h"

namespace troika::engine {

class Engine;

struct Passes {
  // REQUIRES: the engine has its plan, its machine and its graphs.
  Passes(Engine& engine, const cache::KvShape& shape, const cache::PageSource& pages);

  std::mutex mutex;  // is held during a pass, and by whoever touches another member
  schedule::Runner runner;
  // Decides what lanes do next in a prompt of chunks.
  std::unique_ptr<schedule::Policy> chunk_policy;
  schedule::SchedulerStatistics statistics;  // counts what the policy decided
  cache::KvCache kv;                         // has the keys and values of all texts
  cache::Sequences sequences;                // knows which text uses which of them
  BatchRunner batches;                       // computes them
};

}  // namespace troika::engine
