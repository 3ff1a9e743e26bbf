// A virtual phone for a model: its files, its lanes, and the plan of a model on it.
#pragma once

#include <optional>
#include <string>

#include "gguf/file.h"
#include "lanes/virtual/virtual_phone.h"
#include "machines/plan_neurons.h"
#include "plan/plan.h"
#include "plan/profile.h"
#include "prepare/options.h"
#include "solve/cuts/solve_cuts.h"
#include "weights/store.h"

namespace troika::machines {

struct PhoneSetup {
  PhoneSetup(lanes::CostModel cost_model, const lanes::PhoneOptions& phone_options)
      : model(std::move(cost_model)), options(phone_options) {}

  lanes::CostModel model;
  std::optional<lanes::CostModel> prompt_model;  // models other software that runs prompts
  lanes::PhoneOptions options;
  plan::Plan plan;
  // How the plan was chosen; without phases where it came from a file.
  solve::PlacementChoice choice;
  std::vector<solve::CutNote> notes;  // about all that could be cut, where cuts were sought
  std::vector<solve::LengthFound> length_notes;  // about lengths, where cuts were sought
  // The rules that were to hold, as far as the lanes' memory allows.
  std::vector<plan::Placement> rules;
  std::vector<plan::OpTime>
      arrangements;   // for the products of a chunk, on lanes that have a choice
  int n_threads = 1;  // counts threads of this machine, which compute values
  schedule::ShadowOptions shadow;
  schedule::HeadPipeline heads;
  bool makes_graphs_per_prompt = false;       // if set, a prompt waits for its graphs
  std::optional<lanes::NeuronShape> neurons;  // set where the plan goes by neurons
  // How neurons were planned; empty where the plan came from a file.
  NeuronChoiceMade neuron_choice;

  // Says whether a policy plans the order in which heads run (S7).
  bool orders_heads() const {
    return heads.is_on() && heads.stage == schedule::HeadStage::kOrdered &&
           plan.order != plan::Order::kLockStep;
  }

  // Returns a name for people, such as "8gen3 with llm.npu".
  std::string name() const;
  // Returns what plans are made for: the name and a hash of all constants behind it, and which
  // cores and how much of the bus there are where other programs have some.
  std::string identity() const;
};

// Says whether the NPU's law was measured on single integer products with rows below each other, so
// that equivalent shapes can still be faster (N8). Laws from rates at the ideal shape, or from
// whole passes, have that gain in them already.
bool is_law_of_plain_products(const plan::Stack& stack);

// Returns the path of the software of this name, beside the phone's file.
std::string stack_path(const prepare::Options& options, const std::string& name);
// Reads the cost model. Throws Error for files that are no phone or stack, UsageError for options
// that do not fit. REQUIRES: prepare::check_options allows the options.
lanes::CostModel read_cost_model(const prepare::Options& options);
std::unique_ptr<PhoneSetup> make_phone_setup(const prepare::Options& options,
                                             const gguf::File& file,
                                             const model::Blueprint& blueprint,
                                             const weights::Store& weights);

}  // namespace troika::machines
