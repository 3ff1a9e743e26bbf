// Finds where activations of a model can be scaled, channel by channel, without changing what the
// model computes. There each channel is made by a factor or a row of its own, nothing but matrices
// reads the activation, and these can take the scale back in their columns.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/blueprint.h"

namespace troika::forge {

// Elements of a vector, or rows of a matrix, that make channels; channel c is number first + c.
struct ChannelMaker {
  std::string tensor;
  int first = 0;
  bool is_vector = false;
};

// Rows of a matrix that multiply the activation.
struct ChannelRows {
  std::string tensor;
  int first_row = 0;
  int n_rows = 0;
};

struct PlantSite {
  int layer = model::kNone;  // kNone: the input of the head
  std::string name;          // what makes the channels, such as "blk.0.attn_norm"
  int n_channels = 0;        // counts the channels that can be scaled one by one
  // The norm's weight, or the matrix whose rows make the channels; the bias beside it is scaled,
  // too.
  std::vector<ChannelMaker> makers;
  std::vector<ChannelRows> readers;
  // In attention, a channel of a value head, which has head_dim channels, is read once for each of
  // the n_shared query heads that share the head. Elsewhere n_shared is 1 and head_dim is 0.
  int n_shared = 1;
  int head_dim = 0;
  // Says whether the site is the input of the down matrix of a gated feed-forward part, whose
  // magnitudes have a long tail of their own, spread over all channels.
  bool is_hidden = false;
  // The rows that open the channels, where a product makes such rows.
  std::optional<ChannelMaker> gate;

  // Returns the columns of the readers that multiply this channel.
  std::vector<int> columns(int channel) const;
};

// Returns the sites in the order of the model. They are the inputs of the query, key and value
// matrices and of the feed-forward matrices (by their norm), of the output matrix (by the rows of
// the value matrix), of the down matrix (by the rows of the up matrix, where a gate multiplies it
// or ReLU stands between), and of the head (by its norm) unless it is tied to the embedding.
std::vector<PlantSite> find_plant_sites(const model::Blueprint& blueprint);

// Where the queries and keys of a layer's attention are made. What scales the queries of a head up
// and its keys down by as much changes no score.
struct ScoreSite {
  int layer = model::kNone;
  std::vector<ChannelMaker> queries, keys;  // rows of the matrix, and the bias beside it
  int n_kv_heads = 0;
  int n_shared = 0;  // counts the heads of queries that share a head of keys
  int head_dim = 0;

  // Returns the first row of the queries of a head of keys, and of its keys, and how many there
  // are.
  int first_query_row(int kv_head) const { return kv_head * n_shared * head_dim; }
  int n_query_rows() const { return n_shared * head_dim; }
  int first_key_row(int kv_head) const { return kv_head * head_dim; }
};

// Returns the layers whose queries and keys are products that nothing but a rotation changes: a
// norm behind the product would take the scale away.
std::vector<ScoreSite> find_score_sites(const model::Blueprint& blueprint);

}  // namespace troika::forge
