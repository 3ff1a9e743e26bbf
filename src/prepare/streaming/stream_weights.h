// Makes the streams of a model that is larger than its memory (P10): of blocks, of experts, of
// single neurons, and of what prompts need beside these.
#pragma once

#include <memory>
#include <span>

#include "kernels/kernels.h"
#include "model/gated_ffns.h"
#include "plan/ledger.h"
#include "plan/plan.h"
#include "prepare/load_weights.h"
#include "prepare/open_model.h"
#include "prepare/options.h"
#include "weights/neurons/predictor.h"

namespace troika::prepare {

struct StreamedModel {
  const Options& options;
  const kernels::Table& kernels;
  const plan::Ledger& ledger;
  const plan::Plan& plan;
  OpenedModel& model;
};

// Streams what the ledger has no memory for, and says in `loaded` what people should know. `ffns`
// are computed by neuron; the predictor says which of their neurons live, where it is not null.
// Throws Error where memory or the disk is short, UsageError for senseless options.
void stream_weights(const StreamedModel& of, std::span<const model::GatedFfn> ffns,
                    std::unique_ptr<weights::NeuronPredictor> predictor, LoadedWeights* loaded);

}  // namespace troika::prepare
