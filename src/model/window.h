// Sliding windows: how many positions each block sees.
#pragma once

#include <vector>

#include "model/metadata.h"

namespace troika::model {

// Returns `attention.sliding_window`; 0: none.
int read_window(const Metadata& metadata, int fallback);

// Which blocks have the window: as `attention.sliding_window_pattern` lists them, or the last block
// of every `period` has none (0: all have it). `period` is that of the file where it names one.
std::vector<bool> read_windowed_blocks(const Metadata& metadata, int n_layers, int period);

}  // namespace troika::model
