#include "lanes/vendor/product_graph.h"

#include <fmt/format.h>

#include <cstring>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/system.h"

namespace troika::lanes::openvino {
namespace {

std::string shape_text(const ProductShape& shape) {
  return fmt::format("{} tokens with a weight of {} x {} in {}", shape.n_tokens, shape.n_rows,
                     shape.k, shape.kind == ProductKind::kBf16 ? "bf16" : "int8");
}

}  // namespace

uint64_t blob_key(const Library& library, const std::string& device, const std::string& text,
                  const ProductWeights& weights) {
  Fnv hash;
  for (const std::string& part : {library.identity(device), device, processor_name(), text}) {
    hash.add(static_cast<uint64_t>(part.size()));
    hash.add(part);
  }
  if (const char* const hint = precision_hint(weights.shape().kind)) hash.add(std::string(hint));
  hash.add(weights.bytes());
  return hash.value();
}

ProductWeights::ProductWeights(std::shared_ptr<const Library> library, const ProductShape& shape,
                               FunctionRef<void(std::byte*)> write)
    : library_(std::move(library)), shape_(shape), n_bytes_(constant_bytes(shape)) {
  shape_.n_tokens = 0;
  const Api& api = library_->api();
  auto size = static_cast<int64_t>(n_bytes_);
  Status status = api.create_tensor(library_->byte_type(), {1, &size}, &tensor_);
  void* address = nullptr;
  if (status == kOk) status = api.tensor_data(tensor_, &address);
  if (status != kOk && tensor_ != nullptr) api.free_tensor(tensor_);
  library_->check(status, fmt::format("OpenVINO has no {} bytes for a weight", n_bytes_));
  data_ = static_cast<std::byte*>(address);
  try {
    // Gaps must have known bytes, because they are part of a blob's key.
    std::memset(data_, 0, n_bytes_);
    write(data_);
    write_others(shape_, data_);
  } catch (...) {
    api.free_tensor(tensor_);
    throw;
  }
}

ProductWeights::~ProductWeights() { library_->api().free_tensor(tensor_); }

ProductGraph::ProductGraph(std::shared_ptr<const Library> library, const std::string& device,
                           const ProductWeights& weights, int n_tokens, KeptFiles* blobs)
    : library_(std::move(library)), shape_(weights.shape()) {
  shape_.n_tokens = n_tokens;
  try {
    const std::string text = product_text(shape_);
    const uint64_t key = blobs == nullptr ? 0 : blob_key(*library_, device, text, weights);
    const std::optional<std::string> blob = blobs == nullptr ? std::nullopt : blobs->find(key);
    is_imported_ = blob && import(device, *blob);
    if (!is_imported_) compile(device, weights, text);
    if (blob && !is_imported_) blobs->note_refused();
    if (blobs != nullptr && !is_imported_) {
      blobs->keep(key, [&](const std::string& path) { return blob_of_graph(path); });
    }
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

bool ProductGraph::import(const std::string& device, const std::string& blob) {
  const Status status = library_->api().import(library_->core(), blob.data(), blob.size(),
                                               device.c_str(), &compiled_);
  if (status != kOk) compiled_ = nullptr;
  return status == kOk;
}

// Returns the compiled graph as bytes, which the library writes to a file first.
std::string ProductGraph::blob_of_graph(const std::string& path) const {
  if (library_->api().export_to(compiled_, path.c_str()) != kOk) {
    throw Error("the library did not write it");
  }
  std::optional<std::string> blob = read_whole_file(path, kMostKeptBytes);
  if (!blob) throw Error("what was written is not there");
  return *std::move(blob);
}

void ProductGraph::compile(const std::string& device, const ProductWeights& weights,
                           const std::string& text) {
  const Api& api = library_->api();
  Model* model = nullptr;
  library_->check(
      api.read_model(library_->core(), text.data(), text.size(), weights.tensor(), &model),
      "OpenVINO does not read the product of " + shape_text(shape_));
  const char* const hint = precision_hint(shape_.kind);
  const Status status = hint == nullptr
                            ? api.compile(library_->core(), model, device.c_str(), 0, &compiled_)
                            : api.compile(library_->core(), model, device.c_str(), 2, &compiled_,
                                          "INFERENCE_PRECISION_HINT", hint);
  api.free_model(model);
  library_->check(status, fmt::format("The device {} of OpenVINO does not take the product of {}",
                                      device, shape_text(shape_)));
}

Status ProductGraph::bind(void* x, float* y) {
  const Api& api = library_->api();
  int64_t x_sizes[] = {shape_.n_tokens, shape_.k}, y_sizes[] = {shape_.n_tokens, shape_.n_rows};
  Tensor *x_tensor = nullptr, *y_tensor = nullptr;
  const ElementType type =
      shape_.kind == ProductKind::kBf16 ? library_->bf16_type() : library_->byte_type();
  Status status = api.create_tensor_at(type, {2, x_sizes}, x, &x_tensor);
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

bool ProductGraph::run(void* x, float* y) {
  if ((x != x_ || y != y_) && bind(x, y) != kOk) return false;
  return library_->api().infer(request_) == kOk;
}

}  // namespace troika::lanes::openvino
