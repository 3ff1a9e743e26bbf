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
  std::optional<lanes::CostModel> prompt_model;  // of another software that runs prompts
  lanes::PhoneOptions options;
  plan::Plan plan;
  // How the plan was chosen; no phases where it came from a file.
  solve::PlacementChoice choice;
  std::vector<solve::CutNote> notes;             // of all that could be cut, where cuts were sought
  std::vector<solve::LengthFound> length_notes;  // likewise
  std::vector<plan::Placement> rules;  // that were to hold, as far as the lanes' memory goes
  std::vector<plan::OpTime>
      arrangements;   // of the products of a chunk, on lanes that have a choice
  int n_threads = 1;  // of this machine, for the values
  schedule::ShadowOptions shadow;
  schedule::HeadPipeline heads;
  bool makes_graphs_per_prompt = false;       // then a prompt waits for them
  std::optional<lanes::NeuronShape> neurons;  // of a plan by neurons
  NeuronChoiceMade neuron_choice;             // how it was chosen; empty where it came from a file

  // Whether a policy plans in which order heads run (S7).
  bool orders_heads() const {
    return heads.is_on() && heads.step == schedule::HeadStep::kOrdered &&
           plan.order != plan::Order::kLockStep;
  }

  // "8gen3 with llm.npu": what plans are made for.
  std::string name() const;
};

// Throw Error for files that are no phone or stack, UsageError for options that do not fit.
// REQUIRES: prepare::check_options allows the options.
lanes::CostModel read_cost_model(const prepare::Options& options);
std::unique_ptr<PhoneSetup> make_phone_setup(const prepare::Options& options,
                                             const gguf::File& file,
                                             const model::Blueprint& blueprint,
                                             const weights::Store& weights);

}  // namespace troika::machines
