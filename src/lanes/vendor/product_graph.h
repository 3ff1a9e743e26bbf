// A product compiled for a device: static, with its weight inside.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/function_ref.h"
#include "lanes/vendor/openvino_library.h"
#include "lanes/vendor/product_text.h"

namespace troika::lanes::openvino {

// Memory of the library's, which graphs share the ownership of.
class Constants {
 public:
  Constants(std::shared_ptr<const Library> library, size_t bytes);
  ~Constants();
  Constants(const Constants&) = delete;
  Constants& operator=(const Constants&) = delete;
  const Tensor* tensor() const { return tensor_; }
  std::byte* data() const;

 private:
  std::shared_ptr<const Library> library_;
  Tensor* tensor_ = nullptr;
};

class ProductGraph {
 public:
  // `levels` writes the weight's, (n_rows, k). Throws Error where the device does not take the
  // graph.
  ProductGraph(std::shared_ptr<const Library> library, const std::string& device,
               const ProductShape& shape, FunctionRef<void(int8_t*)> levels);
  ~ProductGraph();
  ProductGraph(const ProductGraph&) = delete;
  ProductGraph& operator=(const ProductGraph&) = delete;

  const ProductShape& shape() const { return shape_; }
  // x is (n_tokens, k), y (n_tokens, n_rows): all rows are computed. Returns whether it went well;
  // else the library says why, to this thread.
  bool run(uint8_t* x, float* y);

 private:
  void compile(const std::string& device, FunctionRef<void(int8_t*)> levels);
  Status bind(uint8_t* x, float* y);
  void release() noexcept;

  std::shared_ptr<const Library> library_;
  ProductShape shape_;
  CompiledModel* compiled_ = nullptr;
  Request* request_ = nullptr;
  // What the request is bound to: the same in most runs.
  uint8_t* x_ = nullptr;
  float* y_ = nullptr;
  Tensor* x_tensor_ = nullptr;
  Tensor* y_tensor_ = nullptr;
};

}  // namespace troika::lanes::openvino
