// Products of a prompt that read one activation, on a device. In int8 the kernels of the host lane
// quantise, the device multiplies and adds whole numbers, and sums are scaled as in the host lane,
// so that results are equal to the bit. In bf16 (H13) the kernels round weights and activations,
// and the device adds in an order of its own, which must be the same for any number of tokens.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/cache_line.h"
#include "base/function_ref.h"
#include "kernels/kernels.h"
#include "lanes/lane.h"
#include "lanes/vendor/levels.h"
#include "lanes/vendor/product_graph.h"

namespace troika::lanes {

// Memory that all products of a lane share, because its tasks never overlap.
class VendorPool {
 public:
  void reserve(openvino::ProductKind kind, size_t n_tokens, size_t k, size_t n_rows,
               size_t n_parts);
  // Returns room for (n_tokens, k) levels for each part of k, one part behind the other.
  uint8_t* levels() { return at_cache_line(levels_.data()); }
  uint16_t* bf16() { return reinterpret_cast<uint16_t*>(levels()); }  // (n_tokens, k)
  float* sums() { return at_cache_line(sums_.data()); }               // (parts, n_tokens, n_rows)
  int32_t* whole_sums() { return whole_sums_.data(); }         // (n_rows): the sums of one token
  float* scales() { return scales_.data(); }                   // (n_tokens)
  float* row() { return row_.data(); }                         // (k)
  std::byte* token() { return at_cache_line(token_.data()); }  // int8_token_bytes(k) long
  size_t bytes() const;

 private:
  std::vector<uint8_t> levels_;
  std::vector<float> sums_, scales_, row_;
  std::vector<int32_t> whole_sums_;
  std::vector<std::byte> token_;
};

// One of several products that read one activation: rows of its weight.
struct VendorProduct {
  const model::Op* op;
  BoundProduct bound;  // has InputForm::kInt8 or kBf16
  Range rows;
};

// The weights of products that read one activation, one behind the other. Graphs for all numbers of
// tokens use them.
struct VendorWeights {
  size_t n_rows = 0;
  std::vector<float> scales;  // the scales of all rows; none in bf16
  // The weights of each stretch of k: a single one where the device's sums are exact at any length.
  std::vector<std::unique_ptr<openvino::ProductWeights>> parts;

  size_t bytes() const;
};

// Weights and graphs of a lane's products. They are found by what they are made of in a model; a
// lane serves one model.
class VendorShelf {
 public:
  // `most_exact_sum`: the device's sums are exact up to this number.
  VendorShelf(std::shared_ptr<const openvino::Library> library, int most_exact_sum)
      : library_(std::move(library)), most_exact_sum_(most_exact_sum) {}
  // Returns the weights of some products of one form. Throws Error where there is no memory.
  std::shared_ptr<const VendorWeights> weights_of(std::span<const VendorProduct> products);
  // Returns the graph of these weights for `n_tokens`; `make` makes it where there is none.
  // Executables may share a graph because the lane's tasks never overlap: a part of a prompt is
  // often as long as a usual shape of prompts.
  std::shared_ptr<openvino::ProductGraph> graph_of(
      const openvino::ProductWeights& weights, int n_tokens,
      FunctionRef<std::shared_ptr<openvino::ProductGraph>()> make);
  // Returns a graph of these weights for any number of tokens; null where there is none yet.
  std::shared_ptr<openvino::ProductGraph> any_graph_of(
      const openvino::ProductWeights& weights) const;
  size_t bytes() const;

 private:
  std::shared_ptr<const VendorWeights> make_levels(std::span<const VendorProduct> products) const;
  std::shared_ptr<const VendorWeights> make_bf16(std::span<const VendorProduct> products) const;

  std::shared_ptr<const openvino::Library> library_;
  int most_exact_sum_;
  // Weights by what they are made of. They live as long as executables that use them do: a later
  // model may lie at the same address.
  std::map<std::string, std::weak_ptr<const VendorWeights>> weights_;
  // Graphs that are alive. Whoever keeps a graph keeps its weights, too, so that the address stays
  // theirs.
  std::map<std::pair<const openvino::ProductWeights*, int>, std::weak_ptr<openvino::ProductGraph>>
      graphs_;
};

// What making graphs took: papers call this the costs of a graph.
struct GraphCosts {
  int n_compiled = 0, n_imported = 0, n_shared = 0;
  double compile_us = 0.0, import_us = 0.0;  // all graphs together
  double first_run_us = 0.0;
};

// What products of a stage are made with.
struct VendorContext {
  std::shared_ptr<const openvino::Library> library;
  const std::string& device;
  const Buffers& buffers;
  VendorPool& pool;
  VendorShelf& shelf;
  GraphCosts& costs;
  KeptFiles* blobs = nullptr;  // null: graphs are not kept
};

class VendorProducts {
 public:
  // Compiles graphs for `n_tokens`, from token `first_token` of the batch on, and runs each
  // graph once on values that show how the device adds. Throws Error where the device does not take
  // a graph, does not add whole numbers exactly, or adds floats otherwise for other numbers of
  // tokens. REQUIRES: products of one form.
  VendorProducts(const VendorContext& context, std::vector<VendorProduct> products, int first_token,
                 int n_tokens);

  // Computes the tokens that are present in a run. Returns whether it went well.
  bool run(const kernels::Table& kernels, const Run& run, size_t set_offset, VendorPool& pool);
  // Returns the bytes that the device keeps of the weights in a form of its own, for this number of
  // tokens alone; 0 for graphs that other products made.
  size_t packed_bytes() const { return packed_bytes_; }

 private:
  // Computes a part of every sum: that over the channels from first_k on.
  struct SumPart {
    int first_k;
    std::shared_ptr<openvino::ProductGraph> graph;
  };
  struct Output {
    VendorProduct product;
    float* y;      // stands in the first set of buffers, at the first token
    int width;     // counts floats from one token to the next
    size_t first;  // the place of its first row among the rows of all products
  };

  void compile(const VendorContext& context);
  static void prove(const VendorContext& context, const openvino::ProductWeights& weights,
                    openvino::ProductGraph* graph);
  bool run_int8(const kernels::Table& kernels, const float* x, size_t n_tokens, VendorPool& pool);
  bool run_bf16(const kernels::Table& kernels, const float* x, size_t n_tokens, VendorPool& pool);
  void quantize(const kernels::Table& kernels, const float* x, size_t n_tokens, VendorPool& pool);
  void join_parts(size_t token, VendorPool& pool) const;
  // Brings sums to where they are read, scaled, with biases.
  void deliver(size_t n_tokens, size_t set_offset, VendorPool& pool) const;
  size_t k() const { return static_cast<size_t>(k_); }
  size_t n_built() const { return static_cast<size_t>(n_tokens_); }
  size_t n_rows() const { return weights_->n_rows; }

  openvino::ProductKind kind_;
  int n_tokens_;
  int k_ = 0;
  const float* x_ = nullptr;  // stands in the first set of buffers, at the first token
  Int8Rule rule_;
  std::vector<SumPart> parts_;
  size_t packed_bytes_ = 0;
  std::vector<Output> outputs_;
  std::shared_ptr<const VendorWeights> weights_;
};

}  // namespace troika::lanes
