// Products of a prompt that read one activation, on a device: quantised by the kernels of the host
// lane, multiplied and added as whole numbers by the device, and scaled as the host lane does it,
// so that results are equal to the bit.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "kernels/kernels.h"
#include "lanes/lane.h"
#include "lanes/vendor/levels.h"
#include "lanes/vendor/product_graph.h"

namespace troika::lanes {

// What all products of a lane share, because its tasks never overlap.
class VendorPool {
 public:
  void reserve(size_t n_tokens, size_t k, size_t n_rows, size_t n_parts);
  uint8_t* levels() { return aligned(levels_); }  // (n_tokens, k), one part of k behind the other
  float* sums() { return aligned(sums_); }        // (parts, n_tokens, n_rows)
  int32_t* whole_sums() { return whole_sums_.data(); }  // (n_rows): of one token
  float* scales() { return scales_.data(); }            // (n_tokens)
  float* row() { return row_.data(); }                  // (k)
  std::byte* token() { return aligned(token_); }        // kernels::int8_token_bytes(k)
  size_t bytes() const;

 private:
  template <typename T>
  static T* aligned(std::vector<T>& values);

  std::vector<uint8_t> levels_;
  std::vector<float> sums_, scales_, row_;
  std::vector<int32_t> whole_sums_;
  std::vector<std::byte> token_;
};

// What the products of a stage are made from.
struct VendorContext {
  std::shared_ptr<const openvino::Library> library;
  const std::string& device;
  const kernels::Table& kernels;
  const weights::Store& weights;
  const Buffers& buffers;
  VendorPool& pool;
  int most_exact_sum;  // of the device's
};

// One product of several: rows of its weight.
struct VendorProduct {
  const model::Op* op;
  BoundProduct bound;  // of InputForm::kInt8
  Range rows;
};

class VendorProducts {
 public:
  // Compiles graphs for so many tokens, from token `first_token` of the batch on, and runs each
  // once on extreme values. Throws Error where the device does not take them, or does not add whole
  // numbers exactly.
  VendorProducts(const VendorContext& context, std::vector<VendorProduct> products, int first_token,
                 int n_tokens);

  // Computes the tokens that are present in a run. Returns whether it went well.
  bool run(const kernels::Table& kernels, const Run& run, size_t set_offset, VendorPool& pool);
  // The levels of its weights, which the device keeps in a form of its own.
  size_t packed_bytes() const;

 private:
  struct Part {
    int first_k;
    std::unique_ptr<openvino::ProductGraph> graph;
  };
  struct Output {
    VendorProduct product;
    float* y;      // in the first set of buffers, from the first token on
    int width;     // from one token to the next
    size_t first;  // of its rows among those of all
  };

  void compile(const VendorContext& context, const LevelRows& rows);
  static void prove(const VendorContext& context, const Part& part, std::span<const int8_t> levels);
  void quantize(const kernels::Table& kernels, const float* x, size_t n_tokens, VendorPool& pool);
  void join_parts(size_t token, VendorPool& pool) const;
  void scale(size_t n_tokens, size_t set_offset, VendorPool& pool) const;
  size_t k() const { return static_cast<size_t>(k_); }
  size_t n_built() const { return static_cast<size_t>(n_tokens_); }
  size_t n_rows() const { return scales_.size(); }

  int n_tokens_;
  int k_ = 0;
  const float* x_ = nullptr;  // in the first set of buffers, from the first token on
  Int8Rule rule_;
  std::vector<Part> parts_;
  std::vector<Output> outputs_;
  std::vector<float> scales_;  // of all rows
};

}  // namespace troika::lanes
