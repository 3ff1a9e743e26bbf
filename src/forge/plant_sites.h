// Where the activations of a model can be scaled, channel by channel, without changing what it
// computes: something makes each channel by a factor or a row of its own, nothing but matrices
// reads it, and these can take the scale back in their columns.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/blueprint.h"

namespace troika::forge {

// Elements of a vector or rows of a matrix; channel c is number first + c.
struct ChannelMaker {
  std::string tensor;
  int first = 0;
  bool is_vector = false;
};

// Rows of a matrix that multiply the activation.
struct ChannelReader {
  std::string tensor;
  int first_row = 0;
  int n_rows = 0;
};

struct PlantSite {
  int layer = model::kNone;  // kNone: the input of the head
  std::string name;          // "blk.0.attn_norm", what makes the channels
  int n_channels = 0;        // that can be scaled one by one
  // The norm's weight, or the matrix whose rows give the channels; the bias beside it follows.
  std::vector<ChannelMaker> makers;
  std::vector<ChannelReader> readers;
  // In attention, a channel of a value head is read once for each of the `n_shared` query heads
  // that share it. 1 and 0 elsewhere.
  int n_shared = 1;
  int head_dim = 0;
  // The site is the input of the down matrix of a gated feed-forward part, whose magnitudes have a
  // long tail of their own, spread over all channels.
  bool is_hidden = false;
  std::optional<ChannelMaker> gate;  // the rows that open the channels, where a product makes them

  // The columns of the readers that multiply this channel.
  std::vector<int> columns(int channel) const;
};

// In the order of the model: the inputs of the query, key and value matrices and of the
// feed-forward matrices (by their norm), of the output matrix (by the rows of the value matrix), of
// the down matrix (by the rows of the up matrix, where a gate multiplies it or ReLU stands
// between), and of the head (by its norm) unless it is tied to the embedding.
std::vector<PlantSite> find_plant_sites(const model::Blueprint& blueprint);

}  // namespace troika::forge
