// Prepares the weights that outliers meet on a lane of their own (N4, N5).
#pragma once

#include <memory>
#include <string>

#include "gguf/file.h"
#include "model/blueprint.h"
#include "plan/plan.h"
#include "prepare/int8/int8_binding.h"
#include "prepare/options.h"
#include "weights/channel_file.h"
#include "weights/store.h"

namespace troika::prepare {

struct OutlierChannels {
  std::unique_ptr<weights::Channels> channels;      // null: outliers stay with their products
  std::unique_ptr<weights::ChannelFile> side_file;  // null: all channels are in memory
  // Tells people that a file was written, and why; or why there is nothing to place.
  std::string note;
};

// Says whether prompts of the plan, computed with the method, take outliers out of some product.
bool takes_outliers_out(const plan::Plan& plan, plan::Int8Method method);

// Returns nothing where the plan has no lane for outliers, or no product keeps them. REQUIRES:
// weights have their int8 form. `done` is told each matrix that was only looked at. Throws Error
// where memory or the disk is short.
OutlierChannels make_channels(const Options& options, const gguf::File& file,
                              const model::Blueprint& blueprint, const weights::Store& weights,
                              const plan::Plan& plan, const Int8Binding& int8,
                              const weights::Store::MatrixFunction& done = {});

// Returns the bytes of the channels that make_channels would keep in memory. Before a calibration,
// which finds the hot ones, they are those of all products. Throws UsageError.
size_t resident_channel_bytes(const Options& options, const model::Blueprint& blueprint,
                              const weights::Store& weights, const plan::Plan& plan);

}  // namespace troika::prepare
