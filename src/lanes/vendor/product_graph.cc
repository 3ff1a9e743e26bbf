#include "lanes/vendor/product_graph.h"

#include <fmt/format.h>

#include "base/error.h"

namespace troika::lanes::openvino {
namespace {

std::string shape_text(const ProductShape& shape) {
  return fmt::format("{} tokens with a weight of {} x {}", shape.n_tokens, shape.n_rows, shape.k);
}

}  // namespace

ProductWeights::ProductWeights(std::shared_ptr<const Library> library, int k, int n_rows,
                               FunctionRef<void(int8_t*)> levels)
    : library_(std::move(library)),
      k_(k),
      n_rows_(n_rows),
      n_bytes_(constant_bytes({0, k, n_rows})) {
  const Api& api = library_->api();
  auto size = static_cast<int64_t>(n_bytes_);
  Status status = api.create_tensor(library_->byte_type(), {1, &size}, &tensor_);
  void* address = nullptr;
  if (status == kOk) status = api.tensor_data(tensor_, &address);
  if (status != kOk && tensor_ != nullptr) api.free_tensor(tensor_);
  library_->check(status, fmt::format("OpenVINO has no {} bytes for a weight", n_bytes_));
  data_ = static_cast<std::byte*>(address);
  levels(reinterpret_cast<int8_t*>(data_));
  write_others({0, k, n_rows}, data_);
}

ProductWeights::~ProductWeights() { library_->api().free_tensor(tensor_); }

ProductGraph::ProductGraph(std::shared_ptr<const Library> library, const std::string& device,
                           const ProductWeights& weights, int n_tokens)
    : library_(std::move(library)), shape_{n_tokens, weights.k(), weights.n_rows()} {
  try {
    compile(device, weights);
    library_->check(library_->api().create_request(compiled_, &request_),
                    "OpenVINO does not run the product of " + shape_text(shape_));
  } catch (...) {
    release();
    throw;
  }
}

ProductGraph::~ProductGraph() { release(); }

void ProductGraph::release() noexcept {
  const Api& api = library_->api();
  if (request_ != nullptr) api.free_request(request_);
  if (x_tensor_ != nullptr) api.free_tensor(x_tensor_);
  if (y_tensor_ != nullptr) api.free_tensor(y_tensor_);
  if (compiled_ != nullptr) api.free_compiled(compiled_);
}

void ProductGraph::compile(const std::string& device, const ProductWeights& weights) {
  const Api& api = library_->api();
  const std::string text = product_text(shape_);
  Model* model = nullptr;
  library_->check(
      api.read_model(library_->core(), text.data(), text.size(), weights.tensor(), &model),
      "OpenVINO does not read the product of " + shape_text(shape_));
  const Status status = api.compile(library_->core(), model, device.c_str(), 0, &compiled_);
  api.free_model(model);
  library_->check(status, fmt::format("The device {} of OpenVINO does not take the product of {}",
                                      device, shape_text(shape_)));
}

Status ProductGraph::bind(uint8_t* x, float* y) {
  const Api& api = library_->api();
  int64_t x_sizes[] = {shape_.n_tokens, shape_.k}, y_sizes[] = {shape_.n_tokens, shape_.n_rows};
  Tensor *x_tensor = nullptr, *y_tensor = nullptr;
  Status status = api.create_tensor_at(library_->byte_type(), {2, x_sizes}, x, &x_tensor);
  if (status == kOk) {
    status = api.create_tensor_at(library_->float_type(), {2, y_sizes}, y, &y_tensor);
  }
  if (status == kOk) status = api.set_input(request_, 0, x_tensor);
  if (status == kOk) status = api.set_output(request_, 0, y_tensor);
  if (x_tensor_ != nullptr) api.free_tensor(x_tensor_);
  if (y_tensor_ != nullptr) api.free_tensor(y_tensor_);
  x_tensor_ = x_tensor;
  y_tensor_ = y_tensor;
  x_ = status == kOk ? x : nullptr;
  y_ = status == kOk ? y : nullptr;
  return status;
}

bool ProductGraph::run(uint8_t* x, float* y) {
  if ((x != x_ || y != y_) && bind(x, y) != kOk) return false;
  return library_->api().infer(request_) == kOk;
}

}  // namespace troika::lanes::openvino
