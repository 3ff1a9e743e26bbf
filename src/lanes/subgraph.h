// Consecutive ops that one lane runs as one prebuilt unit, and the buffers that they are built
// with.
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

// Which part of the ops a task computes (N4). Parts up to kSum belong to products that read one
// activation; the later ones belong to attention.
enum class Role : uint8_t {
  kWhole,
  kExtract,  // writes the products' input as int8 rows and lists of outliers
  kProduct,  // multiplies the int8 rows
  kRead,     // reads columns of outliers' channels that are not in memory (N5)
  kShadow,   // multiplies the outliers
  kSum,      // adds the results of kProduct and kShadow
  kStore,    // stores keys and values, where parts of attention are tasks of their own
  // Parts of sparse attention, each for some heads:
  kEstimate,  // scores heads that share a graph, in int8 (S1, S5)
  kSelect,    // chooses the best positions of each query of a head (S2)
  kExact,     // attends to the best positions, for a head (S2)
};

// Says whether a role is a part of sparse attention.
constexpr bool is_of_heads(Role role) { return role >= Role::kEstimate; }

// The heads whose part of sparse attention a task computes.
struct SparseHeads {
  std::vector<int> heads;  // heads of queries
  int n_built = 1;         // counts the heads of the estimating graph: as many as `heads`, or more
  double share = 1.0;      // the share of positions that each query keeps
  int block = 1;  // counts consecutive positions that are chosen together, by as many queries

  bool operator==(const SparseHeads&) const = default;
};

struct Subgraph {
  const model::Blueprint* blueprint;
  std::span<const model::Op> ops;
  // A name for people: "embed", "norm", "qkv", "attention", "out", "ffn", "activation", "down" or
  // "head", or what a task of outliers does.
  const char* name = "";
  Role role = Role::kWhole;
  // The arrangements of the plan, for the lane that builds the subgraph.
  std::span<const plan::ProductArrangement> arrangements = {};
  // Which part of the ops the executable computes; others may compute the rest.
  Slice slice = {};
  SparseHeads sparse = {};  // used where the role is a part of sparse attention

  // Says whether the subgraph's ops depend on more than the number of tokens. If not, its shape is
  // static and chunks share its executable.
  bool is_dynamic() const { return ops.size() == 1 && ops.front().is_dynamic(); }
  int block() const { return ops.front().layer; }
  // Says whether rows are wanted outputs, not tokens.
  bool is_head() const;
  // Returns the arrangement that a product of the subgraph takes; empty: the lane's first one.
  std::string_view arrangement_of(const model::Op& op, plan::Shape shape) const;
};

// The memory of a blueprint's values, for the longest shape. Executables are bound to these buffers
// when they are built, and to one of several sets of them when they run: each chunk in flight has a
// set of its own. Memory is taken when it is first written.
class Buffers {
 public:
  // Makes rows for each token and for each wanted output. Without `has_values` there is no storage
  // but for the logits, and all sets are one: for lanes that compute nothing. Storage is taken from
  // `memory`, which must outlive this; null: plain memory. Throws Error where there is too little
  // memory.
  Buffers(const model::Blueprint& blueprint, int most_tokens, int most_outputs,
          bool has_values = true, int n_sets = 1, Memory* memory = nullptr);
  ~Buffers();
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  // Returns how many bytes such buffers take when all of them are touched.
  static size_t bytes_for(const model::Blueprint& blueprint, int most_tokens, int most_outputs,
                          int n_sets);

  // Makes room for outliers as tasks of their own. Called once, before executables are built.
  void add_shadow(const weights::Channels& channels, int most_tokens);
  ShadowAreas* shadow() const { return shadow_.get(); }
  // Makes room for what the parts of sparse attention hand on as tasks of their own. Called once,
  // before executables are built.
  void add_heads(int n_heads, int most_tokens, int context);
  HeadAreas* heads() const { return heads_.get(); }

  // Returns the rows of a value, (rows, width), in a set of buffers.
  View view(model::ValueId id, int set = 0) const;
  // Returns the distance between sets: a value of set i lies i strides behind that of the first
  // set.
  size_t set_stride() const { return set_stride_; }  // counts floats
  int n_sets() const { return n_sets_; }
  int width(model::ValueId id) const { return widths_[static_cast<size_t>(id)]; }
  size_t bytes() const { return n_floats_ * sizeof(float); }

 private:
  PlainMemory plain_;
  Memory* memory_;
  std::byte* storage_ = nullptr;
  size_t first_offset_bytes_ = 0;  // from the storage's beginning to a cache line
  size_t n_floats_ = 0;
  size_t set_stride_ = 0;
  int n_sets_;
  std::vector<size_t> offsets_;  // in floats, for the first set
  std::vector<int> widths_;
  std::unique_ptr<ShadowAreas> shadow_;
  std::unique_ptr<HeadAreas> heads_;
};

}  // namespace troika::lanes
