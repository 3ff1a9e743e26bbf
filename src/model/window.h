// Reads sliding windows: how many positions each block sees.
#pragma once

#include <vector>

#include "model/metadata.h"

namespace troika::model {

// Returns `attention.sliding_window`; 0: none.
int read_window(const Metadata& metadata, int fallback);

// Says for each block whether it has the window. It goes by `attention.sliding_window_pattern`
// where that is a list. Otherwise the last block of every `period` has no window (0: all have it);
// the file's period counts where it names one.
std::vector<bool> read_windowed_blocks(const Metadata& metadata, int n_layers, int period);

}  // namespace troika::model
