// Consecutive ops that one lane runs as one prebuilt unit, and what they are built from.
#pragma once

#include <cstdlib>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "lanes/head_areas.h"
#include "lanes/memory.h"
#include "lanes/shadow_area.h"
#include "lanes/slice.h"
#include "model/blueprint.h"
#include "plan/plan.h"
#include "weights/store.h"

namespace troika::lanes {

// What of the ops a task computes (N4). All but kWhole are of products that read one activation.
enum class Role : uint8_t {
  kWhole,
  kExtract,  // their input as int8 rows and lists of outliers
  kProduct,  // what the int8 rows come to
  kRead,     // columns of outliers' channels that are not in memory (N5)
  kShadow,   // what the outliers add
  kSum,      // adds that to what the products came to without them
  kStore,    // keys and values of its tokens, where parts of attention are tasks of their own
  // Parts of sparse attention: each has heads of its own.
  kEstimate,  // the scores of heads that have one graph, in int8 (S1, S5)
  kSelect,    // the best positions of each query of a head (S2)
  kExact,     // a head over those positions (S2)
};

// Whether it is a part of sparse attention.
constexpr bool is_of_heads(Role role) { return role >= Role::kEstimate; }

// The heads whose part of sparse attention a task computes.
struct SparseHeads {
  std::vector<int> heads;  // of queries
  int n_built = 1;         // heads of the graph that estimates: as many, or more
  double share = 1.0;      // of the positions that each query keeps
  int block = 1;           // so many positions are chosen together, by so many queries

  bool operator==(const SparseHeads&) const = default;
};

struct Subgraph {
  const model::Blueprint* blueprint;
  std::span<const model::Op> ops;
  // "embed", "norm", "qkv", "attention", "out", "ffn", "activation", "down", "head", or what a task
  // of outliers does: for people
  const char* name = "";
  Role role = Role::kWhole;
  // The plan's, of the lane that builds it.
  std::span<const plan::ProductArrangement> arrangements = {};
  // What of the ops it is; others may be the rest.
  Slice slice = {};
  SparseHeads sparse = {};  // where its role is of heads

  // Static: its shape depends on the number of tokens only, so chunks share its executable.
  bool is_dynamic() const { return ops.size() == 1 && ops.front().is_dynamic(); }
  int block() const { return ops.front().layer; }
  // Its rows are wanted outputs, not tokens.
  bool is_head() const;
  // The arrangement that a product of the subgraph takes; empty: the lane's first one.
  std::string_view arrangement_of(const model::Op& op, plan::Shape shape) const;
};

// What lies behind the values of a blueprint, for the longest shape. Executables are bound to
// these buffers when they are built, and to one of several sets of them when they run: each chunk
// in flight has a set of its own. Memory is taken when it is first written.
class Buffers {
 public:
  // Rows for values per token, and for values per wanted output. Without `has_values` there is no
  // storage but for the logits, and all sets are one: for lanes that compute nothing. Storage is
  // taken from `memory`, which must outlive this; null: plain memory. Throws Error where there is
  // none.
  Buffers(const model::Blueprint& blueprint, int most_tokens, int most_outputs,
          bool has_values = true, int n_sets = 1, Memory* memory = nullptr);
  ~Buffers();
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  // What such buffers take when all of it is touched.
  static size_t bytes_for(const model::Blueprint& blueprint, int most_tokens, int most_outputs,
                          int n_sets);

  // Room for outliers as tasks of their own. Once, before executables are built.
  void add_shadow(const weights::Channels& channels, int most_tokens);
  ShadowAreas* shadow() const { return shadow_.get(); }
  // Room for what heads of sparse attention hand on as tasks of their own. Likewise.
  void add_heads(int n_heads, int most_tokens, int context);
  HeadAreas* heads() const { return heads_.get(); }

  // (rows, width)
  View view(model::ValueId id, int set = 0) const;
  // A value of set i lies i strides behind that of the first.
  size_t set_stride() const { return set_stride_; }  // floats
  int n_sets() const { return n_sets_; }
  int width(model::ValueId id) const { return widths_[static_cast<size_t>(id)]; }
  size_t bytes() const { return n_floats_ * sizeof(float); }

 private:
  PlainMemory plain_;
  Memory* memory_;
  std::byte* storage_ = nullptr;
  uint64_t handle_ = 0;
  size_t first_offset_bytes_ = 0;  // to a cache line
  size_t n_floats_ = 0;
  size_t set_stride_ = 0;
  int n_sets_;
  std::vector<size_t> offsets_;  // floats, of the first set
  std::vector<int> widths_;
  std::unique_ptr<ShadowAreas> shadow_;
  std::unique_ptr<HeadAreas> heads_;
};

}  // namespace troika::lanes
