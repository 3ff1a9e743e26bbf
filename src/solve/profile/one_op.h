// Makes blueprints of a single op with everything that a lane needs to build and run it.
#pragma once

#include <memory>
#include <vector>

#include "base/error.h"
#include "lanes/machine.h"
#include "plan/profile.h"
#include "weights/store.h"

namespace troika::solve {

// Says why a lane cannot build an op.
class NotBuilt : public Error {
 public:
  using Error::Error;
};

// Is never moved: executables keep addresses of its parts.
class OneOp {
 public:
  // Makes one variant of the op for each matrix: they share inputs and output, and have different
  // weights. An op without a matrix still has one variant for each entry. With `pack_threads` the
  // matrices are packed as prompts in int8 need them. Values lie where the lanes of `machine` see
  // them, which must outlive this. Without `has_values` there is no storage for inputs and output:
  // for lanes that compute nothing.
  OneOp(const lanes::Machine& machine, const plan::OpShape& shape,
        const std::vector<weights::Matrix>& matrices, int pack_threads = 0, bool has_values = true);
  OneOp(const OneOp&) = delete;
  OneOp& operator=(const OneOp&) = delete;

  // Builds a variant. `arrangement` is one that the lane names; empty: its first. An op that is the
  // same in steps and prompts is built for prompts where the lane takes only those. Throws
  // NotBuilt.
  std::unique_ptr<lanes::Executable> build(lanes::Lane& lane, size_t variant,
                                           const std::string& arrangement = "");
  const lanes::Run& run() const { return run_; }

 private:
  model::Op add_values();
  void add_variants(const model::Op& op, const std::vector<weights::Matrix>& matrices);
  void fill_inputs();
  void add_attention();
  void add_positions();

  plan::OpShape shape_;
  lanes::Memory* memory_;  // holds the op's values; null: they may lie anywhere
  model::Blueprint blueprint_;
  std::vector<lanes::Subgraph> subgraphs_;
  std::unique_ptr<weights::Store> weights_;
  std::unique_ptr<lanes::Buffers> buffers_;
  std::unique_ptr<cache::KvCache> kv_;
  cache::Batch batch_;
  cache::PlacedBatch placed_;
  std::vector<cache::Token> tokens_;
  std::vector<int> output_rows_;
  std::vector<float> cosines_;
  std::vector<float> sines_;
  lanes::Run run_;
};

}  // namespace troika::solve
