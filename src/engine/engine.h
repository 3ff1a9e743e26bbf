// A model on this machine: its file, a plan, weights, executables, and what passes share. Any
// number of sessions use it. A reader begins best with this file and session.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/passes.h"
#include "kernels/choose.h"
#include "lanes/machine.h"
#include "plan/plan.h"
#include "prepare/load_weights.h"
#include "prepare/memory.h"
#include "prepare/open_model.h"
#include "prepare/options.h"
#include "schedule/graphs.h"

namespace troika::lanes {
class VirtualPhone;
}
namespace troika::machines {
class PhoneNeurons;
class PhonePrompts;
struct PhoneSetup;
}  // namespace troika::machines

namespace troika::engine {

// What the start of an engine took.
struct Start {
  double seconds = 0.0;
  double build_seconds = 0.0;     // the part of it that executables took
  prepare::MemoryFigures memory;  // the figures with which the plan was made
};

class Engine {
 public:
  // Throws Error where something is wrong with the file, or the model does not fit into memory.
  explicit Engine(const prepare::Options& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const gguf::File& file() const { return model_->file; }
  const model::Blueprint& blueprint() const { return model_->blueprint; }
  // REQUIRES: the model is a file.
  const text::Tokenizer& tokenizer() const { return *model_->tokenizer; }
  const weights::Store& weights() const { return model_->weights; }
  const plan::Plan& plan() const { return plan_; }
  const kernels::Kernels& kernels() const { return kernels_; }
  // Says where the weights lie, and what was made of them.
  const prepare::LoadedWeights& loaded() const { return loaded_; }
  lanes::Machine& machine() const { return *machine_; }
  const schedule::Graphs& graphs() const { return *graphs_; }
  const Start& start() const { return start_; }
  // Says what this engine keeps in memory, and the limit of it; nothing on a phone.
  const plan::Ledger& ledger() const { return ledger_; }

  // Returns the phone that stands in for this machine; null where there is none.
  const lanes::VirtualPhone* phone() const;
  // Returns what the phone was planned with; null on this machine.
  const machines::PhoneSetup* phone_setup() const { return phone_setup_.get(); }
  // Returns what goes on beside prompts on a phone; null on this machine.
  machines::PhonePrompts* phone_prompts() const { return phone_prompts_.get(); }
  // Returns the feed-forward blocks by neuron of a phone whose plan has them; else null.
  machines::PhoneNeurons* phone_neurons() const { return phone_neurons_.get(); }
  // Returns who changes layouts of blocks, here or on a phone; null where no layout changes.
  schedule::LayoutWatch* layouts() const;
  // Returns false where passes take modelled time only, so that logits mean nothing.
  bool has_values() const { return has_values_; }

  Passes& passes() { return *passes_; }
  // Says that n_more texts more, or fewer where it is negative, may each grow to a full context. As
  // far as memory allows, there are slots for all of them. REQUIRES: the mutex of the passes is
  // held.
  void count_texts(int n_more);
  // Returns the tag of keys and values that a pass of this phase made, of any rows. Where these may
  // be parts of tiles of sparse attention, the tag is used for nothing else.
  cache::Tag tag_of(plan::Phase phase) const {
    if (plan_.has_one_class()) return 0;
    const bool is_unlike = phase == plan::Phase::kPrompt && plan_.attention.is_sparse();
    return is_unlike ? plan::kMostClasses : static_cast<cache::Tag>(phase);
  }
  // Returns the tag of a position of a prompt of n_prompt tokens that is computed from `first` on.
  cache::Tag tag_at(int position, int n_prompt, int first = 0) const {
    return static_cast<cache::Tag>(plan_.class_at(position, n_prompt, first));
  }
  // Returns the names of a trace's rows: the machine's lanes, and where weights change their layout
  // two more, for its blocks and its loads.
  std::vector<std::string> trace_rows() const;

 private:
  void choose_plan(const prepare::Options& options);
  void make_machine();
  void make_graphs(const prepare::Options& options);
  void make_passes();
  void check_memory();

  // Members below may refer to members above, and are destroyed first.
  Start start_;
  bool has_values_ = true;
  std::unique_ptr<prepare::OpenedModel> model_;
  kernels::Kernels kernels_;
  std::unique_ptr<machines::PhoneSetup> phone_setup_;
  plan::Plan plan_;
  plan::Ledger ledger_;
  prepare::LoadedWeights loaded_;
  std::unique_ptr<lanes::Machine> machine_;
  std::unique_ptr<machines::PhoneNeurons> phone_neurons_;
  std::unique_ptr<schedule::Graphs> graphs_;
  std::unique_ptr<machines::PhonePrompts> phone_prompts_;
  std::unique_ptr<Passes> passes_;
  int n_texts_ = 0;
};

}  // namespace troika::engine
