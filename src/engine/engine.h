// A model on this machine: file, blueprint, tokenizer, plan, weights, executables. Shared by any
// number of sessions; read this file and session.h first.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "base/trace.h"
#include "cache/sequences.h"
#include "engine/batch_runner.h"
#include "forge/hollow.h"
#include "gguf/file.h"
#include "kernels/choose.h"
#include "lanes/machine.h"
#include "model/blueprint.h"
#include "model/rope.h"
#include "plan/plan.h"
#include "prepare/load_weights.h"
#include "prepare/memory.h"
#include "prepare/options.h"
#include "schedule/graphs.h"
#include "schedule/runner.h"
#include "text/tokenizer.h"
#include "weights/channel_file.h"
#include "weights/store.h"

namespace troika::lanes {
class VirtualPhone;
}
namespace troika::machines {
struct PhoneSetup;
}

namespace troika::engine {

class Engine {
 public:
  // Throws Error for whatever is wrong with the file, or does not fit into memory.
  explicit Engine(const prepare::Options& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const gguf::File& file() const { return file_; }
  const model::Blueprint& blueprint() const { return blueprint_; }
  // REQUIRES: the model is a file.
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  const plan::Plan& plan() const { return plan_; }
  const weights::Store& weights() const { return weights_; }
  const schedule::Graphs& graphs() const { return graphs_; }
  const model::RopeAngles& rope_angles() const { return rope_angles_; }
  const kernels::Kernels& kernels() const { return kernels_; }

  lanes::Machine& machine() const { return runner_.machine(); }
  // Tasks go to the lanes through this one from now on, which must have the same lanes in the same
  // order: to see what depends on when they end. Null ends that.
  void set_machine(lanes::Machine* machine) {
    runner_.set_machine(machine != nullptr ? *machine : *machine_);
  }
  // What this engine keeps in memory, and the limit of it; nothing on a phone.
  const plan::Ledger& ledger() const { return ledger_; }
  // What it was planned with.
  const prepare::MemoryFigures& memory_figures() const { return figures_; }
  // Null on this machine.
  const lanes::VirtualPhone* phone() const;
  // What the phone was planned with; null on this machine.
  const machines::PhoneSetup* phone_setup() const { return phone_setup_.get(); }
  // False where passes take modelled time only, and logits mean nothing.
  bool has_values() const { return has_values_; }
  // Records every task from now on; null ends that. The trace must have the machine's lanes,
  // or the rows of `trace_rows`.
  void set_trace(Trace* trace);
  Trace* trace() const { return trace_; }
  // The machine's lanes, and where weights change their layout two more, for its blocks and loads.
  std::vector<std::string> trace_rows();

  // Told of the inputs of products from now on; null ends that.
  void set_observer(lanes::InputObserver* observer) { observer_ = observer; }
  lanes::InputObserver* observer() const { return observer_; }

  // Runs every pass. REQUIRES: the pass mutex is held.
  schedule::Runner& runner() { return runner_; }
  // What lanes do next in a prompt of several chunks, and what was decided there. REQUIRES: the
  // pass mutex is held.
  schedule::Policy& chunk_policy() { return *chunk_policy_; }
  schedule::SchedulerStatistics& scheduler_statistics() { return scheduler_statistics_; }

  // Held during a pass, and by whoever touches the cache: both are shared by all sessions.
  std::mutex& pass_mutex() { return pass_mutex_; }

  // Keys and values of all texts, who uses which of them, and what computes batches of them.
  // REQUIRES: the pass mutex is held.
  cache::KvCache& kv() { return kv_; }
  cache::Sequences& sequences() { return sequences_; }
  BatchRunner& batch_runner() { return batch_runner_; }
  // So many more texts, or fewer, may grow to a full context each: as far as memory allows, there
  // are slots for all of them. REQUIRES: the pass mutex is held.
  void count_texts(int n_more);
  // What marks keys and values that a pass of this phase made.
  cache::Tag tag_of(plan::Phase phase) const {
    return plan_.has_one_class() ? 0 : static_cast<cache::Tag>(phase);
  }

  // The side file of weights by channel, which outliers on a lane of their own read; null without
  // one.
  const weights::ChannelFile* channel_file() const { return loaded_.channel_file.get(); }
  // What changes the layout of weights (D1); null where it stays. REQUIRES: the pass mutex is held.
  prepare::LayoutLoader* layouts() const { return loaded_.layouts.get(); }
  // What happened while loading that people should know; empty where nothing did.
  const std::string& note() const { return loaded_.note; }

  double load_seconds() const { return load_seconds_; }
  const prepare::WeightPages& weight_pages() const { return loaded_.pages; }
  // The part of it that measuring and packing weights for prompts took.
  double pack_seconds() const { return loaded_.pack_seconds; }
  // The part of it that building executables took.
  double build_seconds() const { return build_seconds_; }

 private:
  std::unique_ptr<lanes::Machine> make_machine() const;

  std::chrono::steady_clock::time_point started_;
  size_t program_bytes_;    // resident before loading
  size_t anonymous_bytes_;  // of it, what belongs to no file
  double build_seconds_ = 0.0;
  bool has_values_;
  std::unique_ptr<forge::HollowModel> hollow_;  // behind a model that is only a name
  gguf::File file_;
  model::Blueprint blueprint_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  kernels::Kernels kernels_;
  weights::Store weights_;
  std::unique_ptr<machines::PhoneSetup> phone_setup_;
  prepare::MemoryFigures figures_;
  plan::Plan plan_;
  plan::Ledger ledger_;
  prepare::LoadedWeights loaded_;  // before anything keeps what it read of the weights
  model::RopeAngles rope_angles_;
  std::chrono::steady_clock::time_point graphs_started_;
  std::unique_ptr<lanes::Machine> machine_;
  schedule::Graphs graphs_;
  schedule::Runner runner_;
  std::unique_ptr<schedule::Policy> chunk_policy_;
  Trace* trace_ = nullptr;
  lanes::InputObserver* observer_ = nullptr;
  schedule::SchedulerStatistics scheduler_statistics_;
  std::mutex pass_mutex_;
  int n_texts_ = 0;
  cache::KvCache kv_;
  cache::Sequences sequences_;
  BatchRunner batch_runner_;
  double load_seconds_ = 0.0;
};

}  // namespace troika::engine
