// A model on this machine: its file, a plan, weights, executables, and what passes share. Any
// number of sessions use it. A reader begins best with this file and session.h.
#pragma once

#include <memory>
#include <string>

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
  double build_seconds = 0.0;      // the part of it that executables took
  bool has_short_context = false;  // says that memory made the context shorter than it usually is
  // Names the file of a plan that gave the context, beside which ‹context› does nothing; empty:
  // none did.
  std::string plan_file;
  bool has_left_plan = false;  // says that memory had no room for the plan to begin with
};

// A virtual phone and what an engine has beside it.
struct EnginePhone {
  const lanes::VirtualPhone* machine = nullptr;
  const machines::PhoneSetup* setup = nullptr;  // what the phone was planned with
  machines::PhonePrompts* prompts = nullptr;    // what goes on beside prompts
  // Computes feed-forward blocks by neuron; null where the phone's plan has none.
  machines::PhoneNeurons* neurons = nullptr;
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
  // Returns the figures with which the plan was made.
  const prepare::MemoryFigures& memory() const { return model_->memory; }
  // Says where the weights lie, and what was made of them.
  const prepare::LoadedWeights& loaded() const { return loaded_; }
  lanes::Machine& machine() const { return *machine_; }
  const schedule::Graphs& graphs() const { return *graphs_; }
  const Start& start() const { return start_; }
  // Counts the texts that are computed at the same time at most; 0: nobody knows.
  int most_texts() const { return most_texts_; }
  // Says what this engine keeps in memory, and the limit of it; nothing on a phone.
  const plan::Ledger& ledger() const { return ledger_; }

  // Returns the phone that stands in for this machine; all of it is null where there is none.
  EnginePhone phone() const;
  // Returns false where passes take modelled time only, so that logits mean nothing.
  bool has_values() const { return has_values_; }

  Passes& passes() const { return *passes_; }

 private:
  // Returns what is to be said of the plan, as words of a note.
  std::string choose_plan(const prepare::Options& options);
  void make_machine(bool keeps_files);
  // Shortens a context that a device has no room for, unless somebody asked for it.
  void fit_context(const prepare::Options& options);
  void make_graphs(const prepare::Options& options);
  void check_memory();

  // Members below may refer to members above, and are destroyed first. Nothing else depends on
  // their order: the constructor makes them one after the other.
  Start start_;
  bool has_values_ = true;
  int most_texts_ = 0;
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
};

}  // namespace troika::engine
