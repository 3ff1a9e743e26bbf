// Decides where the weights lie while an engine runs. Decoding reads all of them for each token,
// and one thread reads them up to a half faster from huge pages.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "gguf/file.h"
#include "model/blueprint.h"
#include "prepare/options.h"
#include "weights/switched_blocks.h"

namespace troika::prepare {

struct WeightPages {
  bool is_copied = false;
  std::string text;  // "copied into huge pages (735 MB in 0.12 s)"
  double seconds = 0.0;
};

// Places the weights as options.memory.load says. "map" asks for huge pages of the file, which some
// file systems have. "copy" takes memory of this process, which was faster even then. "auto" copies
// all but small files if half of the free memory holds them, and what keys and values of the
// context leave of it, which may grow to `cache_bytes`. `unread` ranges of the file are not copied:
// they stay mapped, and nobody brings their pages.
WeightPages place_weights(const Options& options, gguf::File& file,
                          std::span<const weights::FileRead> unread, size_t cache_bytes);

// Returns where the tensors lie that no op reads: predictors that a checkpoint brings.
std::vector<weights::FileRead> unread_ranges(const model::Blueprint& blueprint,
                                             const gguf::File& file);

// Places the other weights where some change their layout (D1). `ranges` of the file have memory of
// their own. What lies between them, as the head, is copied unless options.memory.load is "map".
WeightPages place_weights_beside(const Options& options, gguf::File& file,
                                 std::span<const weights::FileRead> ranges);

}  // namespace troika::prepare
