// Makes models whose activations have outliers, as those of large models have and those of small
// ones have not: chosen channels are scaled up, and the weights that read them down, so that the
// model computes what it did. Figures 10 to 12 of the llm.npu paper are the pattern: few channels,
// some much stronger than others, stronger in the first and last layers. Such models show that a
// mechanism works and is exact; what they lose under a quantisation says nothing of real ones.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/progress.h"

namespace troika::forge {

struct PlantOptions {
  std::string input;
  std::string output;       // may be the same path: it is replaced when the new file is complete
  double channels = 0.003;  // share of the channels of each activation, above 0, at most 0.5; one
                            // channel is scaled at least
  // How much larger the inputs of down matrices behind a gate become. Their own magnitudes have a
  // long tail over all channels, which few planted ones do not rise above.
  double hidden_channels = 0.025;
  // How large each input of a matrix is in use, by the name of the matrix, where that is known: the
  // largest hidden channels are planted. Otherwise the lengths of their rows tell.
  std::map<std::string, std::vector<double>> uses{};
  int scale = 64;            // of the strongest channel of the first and last layer: 2, 4 ... 65536
  uint64_t seed = 1;         // chooses among the channels whose weights are not small
  std::string type = "f16";  // "f16": matrices that F16 holds exactly become F16, others F32;
                             // "f32": all become F32
  int n_threads = 1;
  ProgressFunction progress{};  // in bytes of the input; may be empty
};

struct PlantedChannel {
  int channel;
  int scale;
};

// What was done to the activation that these weights make.
struct PlantedSite {
  std::string name;                     // "blk.0.attn_norm"
  int layer;                            // -1: the input of the head
  int n_channels;                       // of the activation
  std::vector<PlantedChannel> planted;  // strongest first
};

struct PlantReport {
  std::vector<PlantedSite> sites;
  uint64_t n_f16 = 0;  // matrices
  uint64_t n_f32 = 0;
  uint64_t n_inexact_in_f16 = 0;  // of those in F32: F16 was asked for, but would round values
  // Values that F32 cannot hold exactly after the scaling, because they lie near its smallest: they
  // were rounded.
  uint64_t n_rounded = 0;
  uint64_t input_bytes = 0;
  uint64_t output_bytes = 0;
};

// Blocks of a quantised input are decoded. The same options give the same file with any number of
// threads. Throws UsageError for options outside their range, and Error for an input that cannot be
// read or computed with, an output that cannot be written, and values that are not finite or become
// larger than F32 holds. Leaves nothing behind then.
PlantReport plant_outliers(const PlantOptions& options);

}  // namespace troika::forge
