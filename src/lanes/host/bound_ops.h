// The ops of a host executable, each with everything that is known before the run.
#pragma once

#include <variant>
#include <vector>

#include "base/error.h"
#include "lanes/host/bound_product.h"
#include "lanes/subgraph.h"

namespace troika::lanes {

// kEmbed
struct BoundEmbedding {
  weights::Matrix matrix;
};

// kRmsNorm, kLayerNorm
struct BoundNorm {
  const float* weight;  // null: all 1
  const float* bias;    // null: none
};

// kRope
struct BoundRope {
  int head_dim;
  int n_rotated;  // dimensions of a head
  bool is_half_split;
  int first_pair;  // of its rotation among those of all
  int n_pairs;     // of all rotations
};

// kAttention
struct BoundAttention {
  int head_dim;
  int n_group;  // heads of queries that share one of keys and values
  // Heads of keys and values: all of them but in a slice.
  int first_head;
  int last_head;
  bool shares_keys;                  // of a prompt, in bfloat16
  plan::LayerAttention sparse = {};  // of a prompt: what its tokens attend to; here often all
  // Where parts of it are tasks of their own: which one this is, whose, and what they hand on.
  Role role = Role::kWhole;
  std::vector<int> query_heads = {};
  HeadAreas* areas = nullptr;

  int n_heads() const { return last_head - first_head; }
};

// One op, bound to its weights and buffers. They run in order; workers meet between them where one
// may need what another has made.
struct BoundOp {
  model::Op op;
  // The inputs and the output stand in the first set of buffers; OpContext finds them in the run's.
  const float* inputs[3] = {};
  float* output = nullptr;
  int input_width = 0;   // of kExpertLinear that takes parts: of one
  int output_width = 0;  // of kExpertLinear: of one part
  // The columns of the output that are computed: rows of a product's weight, of experts of one
  // part, or elements of what goes element by element. All of them but in a slice.
  int first_column = 0;
  int last_column = 0;
  bool per_output = false;    // rows are wanted outputs, not tokens
  bool meets_before = false;  // the workers meet before this op
  // What ops of its kind have beside that. kRoute and kExpertSum have counts; those that go element
  // by element have nothing.
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
  // Null where it is none.
  const BoundProduct* product() const { return std::get_if<BoundProduct>(&own); }
  BoundProduct* product() { return std::get_if<BoundProduct>(&own); }
};

// Bytes of a row of a product's input that is brought into its form; 0: it is taken as it stands.
size_t prepared_row_bytes(const BoundOp& bound);

std::vector<BoundOp> bind_ops(const Subgraph& subgraph, const weights::Store& weights,
                              const Buffers& buffers, const kernels::Table& kernels,
                              Precision precision);

}  // namespace troika::lanes
