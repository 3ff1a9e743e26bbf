// Makes models whose activations have outliers, as those of large models do and those of small
// models do not. Chosen channels are scaled up, and the weights that read them are scaled down, so
// that the model computes what it did before. The pattern follows figures 10 to 12 of the llm.npu
// paper: few channels, some much stronger than others, stronger in the first and last layers. Such
// models show that a mechanism works and is exact. What they lose under a quantisation says nothing
// about real models.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/progress.h"

namespace troika::forge {

struct PlantOptions {
  std::string input;
  std::string output;  // may not be a file of the input
  // The share of channels of each activation, above 0 and at most 0.5; at least one channel is
  // scaled.
  double channels = 0.003;
  // The share for the inputs of down matrices behind a gate. Their own magnitudes have a long tail
  // over all channels, above which a few planted channels would not rise.
  double hidden_channels = 0.025;
  // How large each input of a matrix is in use, by the name of the matrix, where that is known:
  // then the largest hidden channels are planted. Otherwise the lengths of the channels' rows
  // decide.
  std::map<std::string, std::vector<double>> uses{};
  // For the strongest channel of the first and last layer: 2, 4 ... 65536; 1: no channel is scaled.
  int scale = 64;
  // The queries of the heads that share a head of keys are scaled by a power of two from
  // 1 / head_scale to head_scale, and the keys back: 2, 4 ... 256; 1: none are. So the scales of
  // heads spread, and no score changes.
  int head_scale = 1;
  uint64_t seed = 1;  // chooses among the channels whose weights are not small
  // "f16": matrices that F16 holds exactly become F16, all others F32; "f32": all become F32.
  std::string type = "f16";
  int n_threads = 1;
  ProgressFunction progress{};  // counts bytes of the input; may be empty
};

struct PlantedChannel {
  int channel;
  int scale;
};

// What was done to one activation.
struct PlantedSite {
  std::string name;                     // what makes the activation: "blk.0.attn_norm"
  int layer;                            // -1: it is the input of the head
  int n_channels;                       // counts channels of the activation
  std::vector<PlantedChannel> planted;  // the strongest channel comes first
};

struct PlantReport {
  std::vector<PlantedSite> sites;
  uint64_t n_scaled_heads = 0;  // counts heads of keys
  uint64_t n_f16 = 0;           // counts matrices
  uint64_t n_f32 = 0;
  // Counts matrices in F32 although F16 was asked for, because F16 would round values.
  uint64_t n_inexact_in_f16 = 0;
  // Counts values that F32 cannot hold exactly after the scaling, because they lie near its
  // smallest number: these were rounded.
  uint64_t n_rounded = 0;
  uint64_t input_bytes = 0;
  uint64_t output_bytes = 0;
};

// Plants outliers. Blocks of a quantised input are decoded. The same options give the same file
// with any number of threads. Throws UsageError for options outside their range. Throws Error for
// an input that cannot be read or computed with, an output that cannot be written, and values that
// are not finite or become larger than F32 holds; then it leaves nothing behind.
PlantReport plant_outliers(const PlantOptions& options);

}  // namespace troika::forge
