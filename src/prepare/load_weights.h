// Brings the weights of a model into the forms in which a plan's executables read them.
#pragma once

#include <memory>
#include <string>

#include "kernels/kernels.h"
#include "plan/ledger.h"
#include "plan/plan.h"
#include "prepare/int8/int8_binding.h"
#include "prepare/layouts/layout_loader.h"
#include "prepare/open_model.h"
#include "prepare/options.h"
#include "prepare/streaming/expert_stream.h"
#include "prepare/streaming/weight_stream.h"
#include "prepare/weight_pages.h"
#include "weights/channel_file.h"

namespace troika::prepare {

struct LoadedWeights {
  WeightPages pages;
  Int8Binding int8;
  // Holds weights by channel, for outliers that have a lane of their own; null: memory has all.
  std::unique_ptr<weights::ChannelFile> channel_file;
  // Changes the layout of blocks (D1); null where no block changes.
  std::unique_ptr<LayoutLoader> layouts;
  // Reads for prompts what steps read by neuron; null where nothing is read by neuron, or prompts
  // are computed as steps.
  std::unique_ptr<WeightStream> prompts;
  // Reads experts when a router asks for them; null where all weights are in memory, or blocks are
  // read with all their experts. `stream` holds a reference to it.
  std::unique_ptr<ExpertStream> experts;
  // Reads blocks when they are needed; null where memory has room for all.
  std::unique_ptr<WeightStream> stream;
  // Tells people what happened that they should know: parts of one sentence; empty where nothing
  // did.
  std::string note;
  double pack_seconds = 0.0;  // the time that measuring and packing weights for prompts took

  // Adds a part to the note where there is something to say.
  void add_note(const std::string& more);
};

// Places the weights in memory, completes the plan's int8 part, and gives the store what the plan
// asks for: packed copies, columns for outliers, blocks that change their layout, rows side by
// side. Where the ledger has less for weights than there are, blocks are streamed. Throws Error
// where memory or the disk is short, UsageError for senseless options.
LoadedWeights load_weights(const Options& options, const kernels::Table& kernels,
                           const plan::Ledger& ledger, OpenedModel* model, plan::Plan* plan);

}  // namespace troika::prepare
