// The ops of a host executable, each with everything that is known before the run.
#pragma once

#include <variant>
#include <vector>

#include "base/error.h"
#include "lanes/host/bound_product.h"
#include "lanes/subgraph.h"

namespace troika::lanes {

// What an op of kind kEmbed is bound to.
struct BoundEmbedding {
  weights::Matrix matrix;
};

// What an op of kind kRmsNorm or kLayerNorm is bound to.
struct BoundNorm {
  const float* weight;  // null: all 1
  const float* bias;    // null: none
};

// What an op of kind kRope is bound to.
struct BoundRope {
  int head_dim;
  int n_rotated;  // counts the rotated dimensions of a head
  bool is_half_split;
  int first_pair;  // the place of this rotation's first pair among the pairs of all rotations
  int n_pairs;     // counts the pairs of all rotations
};

// What an op of kind kAttention is bound to.
struct BoundAttention {
  // A head of keys that a task's heads of queries use, and the places of these among all that share
  // it.
  struct KeyHead {
    int head;
    std::vector<size_t> places;
  };

  int head_dim;
  int n_group;  // counts heads of queries that share one head of keys and values
  // The heads of keys and values that are computed: all of them, or those of a slice.
  int first_head;
  int last_head;
  bool shares_keys;  // prompts share keys: many queries are computed together, in bfloat16
  // Says which positions a prompt's tokens attend to: by default all.
  plan::LayerAttention sparse = {};
  // Where parts of attention are tasks of their own: which part this one is, whose heads it has,
  // and where the parts hand on results.
  Role role = Role::kWhole;
  std::vector<int> query_heads = {};
  std::vector<KeyHead> key_heads = {};  // each once
  HeadAreas* areas = nullptr;

  int n_heads() const { return last_head - first_head; }
};

// Where each worker finds and keeps the values of an op in a run whose only row it computes itself
// (see own_rows.h).
struct OwnPlaces {
  static constexpr int kShared = -1;  // the value is in the buffers that all workers share

  // Places in floats, among the worker's own values.
  int inputs[3] = {kShared, kShared, kShared};
  int output = kShared;
  bool meets_before = false;     // takes the place of BoundOp's
  bool shares_elements = false;  // says whether the workers divide the elements of the row
};

// One op, bound to its weights and buffers. The ops of an executable run in order; workers meet
// between two of them where one may need what another worker has made.
struct BoundOp {
  model::Op op;
  // The inputs and the output stand in the first set of buffers; OpContext finds them in the run's.
  const float* inputs[3] = {};
  float* output = nullptr;
  int input_width = 0;   // kExpertLinear that takes parts: the width of one part
  int output_width = 0;  // kExpertLinear: the width of one part
  // The columns of the output that are computed: rows of a product's weight, columns of one
  // expert's part, or elements of an op that goes element by element. Without a slice these are all
  // columns.
  int first_column = 0;
  int last_column = 0;
  bool per_output = false;    // rows are wanted outputs, else tokens
  bool meets_before = false;  // says whether the workers meet before this op
  OwnPlaces own_places;
  // What only ops of this kind have. kRoute and kExpertSum have counts; ops that go element by
  // element have nothing.
  std::variant<std::monostate, BoundEmbedding, BoundNorm, BoundRope, BoundAttention, BoundProduct,
               ExpertCounts>
      own;

  int n_columns() const { return last_column - first_column; }
  // REQUIRES: `own` is of this type.
  template <typename Own>
  const Own& as() const {
    const Own* const found = std::get_if<Own>(&own);
    TROIKA_ASSERT(found != nullptr);
    return *found;
  }
  // Returns null where the op is no product.
  const BoundProduct* product() const { return std::get_if<BoundProduct>(&own); }
  BoundProduct* product() { return std::get_if<BoundProduct>(&own); }
};

// Returns the bytes of an input row in the form that the product takes; 0: it takes floats as they
// stand.
size_t prepared_row_bytes(const BoundOp& bound);

std::vector<BoundOp> bind_ops(const Subgraph& subgraph, const weights::Store& weights,
                              const Buffers& buffers, const kernels::Table& kernels,
                              const Precision& precision);

}  // namespace troika::lanes
