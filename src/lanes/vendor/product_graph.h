// A product that is compiled for a device as a static graph, with its weight inside.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/function_ref.h"
#include "lanes/kept_files.h"
#include "lanes/vendor/openvino_library.h"
#include "lanes/vendor/product_text.h"

namespace troika::lanes::openvino {

// A weight in the form in which a graph takes it, in memory of the library. Graphs for several
// numbers of tokens share it.
class ProductWeights {
 public:
  // Makes the weight of products of this shape, for any number of tokens. `write` writes its
  // numbers, (n_rows, k). Throws Error where there is no memory.
  ProductWeights(std::shared_ptr<const Library> library, const ProductShape& shape,
                 FunctionRef<void(std::byte*)> write);
  ~ProductWeights();
  ProductWeights(const ProductWeights&) = delete;
  ProductWeights& operator=(const ProductWeights&) = delete;

  const ProductShape& shape() const { return shape_; }  // of no tokens
  int k() const { return shape_.k; }
  int n_rows() const { return shape_.n_rows; }
  const Tensor* tensor() const { return tensor_; }
  std::span<const std::byte> bytes() const { return {data_, n_bytes_}; }
  // REQUIRES: a weight of levels.
  std::span<const int8_t> levels() const {  // (n_rows, k)
    return {reinterpret_cast<const int8_t*>(data_), shape_.weight_bytes()};
  }
  // REQUIRES: a weight in bf16.
  std::span<const uint16_t> bf16() const {  // (n_rows, k)
    return {reinterpret_cast<const uint16_t*>(data_), shape_.weight_bytes() / sizeof(uint16_t)};
  }

 private:
  std::shared_ptr<const Library> library_;
  ProductShape shape_;
  Tensor* tensor_ = nullptr;
  std::byte* data_ = nullptr;
  size_t n_bytes_;
};

// Names graphs that are compiled, in the folder in which they are kept.
inline constexpr KeptKind kKeptGraphs = {"openvino", ".blob", "compiled graphs of OpenVINO"};

// Returns a key of everything that a compiled graph may depend on; `text` is its description.
uint64_t blob_key(const Library& library, const std::string& device, const std::string& text,
                  const ProductWeights& weights);

class ProductGraph {
 public:
  // Takes the graph from `blobs` where it is there, else compiles it and keeps it there; null:
  // compiles it only. Throws Error where the device does not take the graph.
  ProductGraph(std::shared_ptr<const Library> library, const std::string& device,
               const ProductWeights& weights, int n_tokens, KeptFiles* blobs = nullptr);
  ~ProductGraph();
  ProductGraph(const ProductGraph&) = delete;
  ProductGraph& operator=(const ProductGraph&) = delete;

  const ProductShape& shape() const { return shape_; }
  // Returns whether the graph came from a blob.
  bool is_imported() const { return is_imported_; }
  // Computes all rows: x is (n_tokens, k) of the shape's kind, y is (n_tokens, n_rows). Returns
  // whether it went well. If not, the library tells this thread why.
  bool run(void* x, float* y);

 private:
  void compile(const std::string& device, const ProductWeights& weights, const std::string& text);
  bool import(const std::string& device, const std::string& blob);
  std::string blob_of_graph(const std::string& path) const;
  Status bind(void* x, float* y);
  void release() noexcept;

  std::shared_ptr<const Library> library_;
  ProductShape shape_;
  bool is_imported_ = false;
  CompiledModel* compiled_ = nullptr;
  Request* request_ = nullptr;
  // The addresses to which the request is bound: they are the same in most runs.
  void* x_ = nullptr;
  float* y_ = nullptr;
  Tensor* x_tensor_ = nullptr;
  Tensor* y_tensor_ = nullptr;
};

}  // namespace troika::lanes::openvino
