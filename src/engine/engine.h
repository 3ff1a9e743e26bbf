// A model on this machine: file, blueprint, tokenizer, plan, weights, executables. Shared by any
// number of sessions; read this file and session.h first.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "base/trace.h"
#include "cache/sequences.h"
#include "engine/batch_runner.h"
#include "engine/int8_binding.h"
#include "engine/layout_loader.h"
#include "engine/memory.h"
#include "engine/options.h"
#include "engine/weight_pages.h"
#include "gguf/file.h"
#include "kernels/choose.h"
#include "lanes/machine.h"
#include "model/blueprint.h"
#include "model/rope.h"
#include "plan/plan.h"
#include "schedule/graphs.h"
#include "schedule/runner.h"
#include "text/tokenizer.h"
#include "weights/channel_file.h"
#include "weights/hollow.h"
#include "weights/store.h"

namespace troika::lanes {
class VirtualPhone;
}

namespace troika::engine {

struct PhoneSetup;

class Engine {
 public:
  // Throws Error for whatever is wrong with the file, or does not fit into memory.
  explicit Engine(const Options& options);
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
  const MemoryFigures& memory_figures() const { return figures_; }
  // Null on this machine.
  const lanes::VirtualPhone* phone() const { return phone_; }
  // What the phone was planned with; null on this machine.
  const PhoneSetup* phone_setup() const { return phone_setup_.get(); }
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

  // Of outliers on a lane of their own: the side file of weights by channel; null without one.
  const weights::ChannelFile* channel_file() const { return channel_file_.get(); }
  // Of weights that change their layout (D1); null where they do not. REQUIRES: the pass mutex is
  // held.
  LayoutLoader* layouts() const { return layouts_.get(); }
  // What happened while loading that people should know; empty where nothing did.
  const std::string& note() const { return note_; }

  double load_seconds() const { return load_seconds_; }
  const WeightPages& weight_pages() const { return pages_; }
  // Of it, what measuring and packing weights for prompts took.
  double pack_seconds() const { return pack_seconds_; }
  // Of it, what building executables took.
  double build_seconds() const { return build_seconds_; }

 private:
  // The packed copies that the plan asks for, and columns for outliers.
  void prepare_weights(const Options& options);
  std::unique_ptr<lanes::Machine> make_machine(const Options& options);

  double started_;
  size_t program_bytes_;    // resident before loading
  size_t anonymous_bytes_;  // of it, what belongs to no file
  double pack_seconds_ = 0.0;
  double graphs_started_ = 0.0;
  double build_seconds_ = 0.0;
  bool has_values_;
  std::unique_ptr<weights::HollowModel> hollow_;  // behind a model that is only a name
  gguf::File file_;
  model::Blueprint blueprint_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  kernels::Kernels kernels_;
  weights::Store weights_;
  std::unique_ptr<PhoneSetup> phone_setup_;
  MemoryFigures figures_;
  plan::Plan plan_;
  plan::Ledger ledger_;
  WeightPages pages_;  // before anything keeps what it read of the weights
  Int8Binding int8_;
  std::unique_ptr<weights::ChannelFile> channel_file_;  // set by make_machine, as is the note
  std::string note_;
  std::unique_ptr<LayoutLoader> layouts_;  // likewise
  model::RopeAngles rope_angles_;
  const lanes::VirtualPhone* phone_ = nullptr;  // the machine, if it is one; set by make_machine
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
