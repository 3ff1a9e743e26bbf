#include "lanes/opencl/device_op.h"

#include <fmt/format.h>

#include "base/error.h"

namespace troika::lanes::opencl {
namespace {

template <typename Value>
std::unique_ptr<DeviceMemory> copy_of(const std::shared_ptr<const Device>& device,
                                      const std::vector<Value>& values) {
  if (values.empty()) return nullptr;
  return std::make_unique<DeviceMemory>(device, values.data(), values.size() * sizeof(Value));
}

std::string key_of(const weights::Matrix& matrix, Range rows, size_t n_experts = 1) {
  return fmt::format("{} {}:{}x{}:{}-{} of {}", tensor::type_name(matrix.type),
                     static_cast<const void*>(matrix.data), matrix.n_rows, matrix.row_length,
                     rows.begin, rows.end, n_experts);
}

}  // namespace

size_t DevicePanels::bytes() const {
  size_t n = 0;
  for (const auto* memory : {&levels, &scales, &minima}) {
    if (*memory != nullptr) n += (*memory)->bytes();
  }
  return n;
}

std::shared_ptr<const DevicePanels> WeightShelf::shelve(const std::string& key,
                                                        const Panels& panels) {
  auto made = std::make_shared<DevicePanels>();
  made->form = panels.form;
  made->k = panels.k;
  made->n_rows = panels.n_rows;
  made->levels = copy_of(device_, panels.levels);
  made->scales = copy_of(device_, panels.scales);
  made->minima = copy_of(device_, panels.minima);
  panels_[key] = made;
  return made;
}

std::shared_ptr<const DevicePanels> WeightShelf::panels_of(const weights::Matrix& matrix,
                                                           Range rows, size_t n_experts) {
  const std::string key = "float " + key_of(matrix, rows, n_experts);
  if (auto kept = panels_[key].lock()) return kept;
  return shelve(key, opencl::panels_of(matrix, rows, n_experts));
}

std::shared_ptr<const DevicePanels> WeightShelf::exact_panels_of(const BoundProduct& product,
                                                                 Range rows, bool has_quads) {
  const std::string key = "int8 " + key_of(product.weight.matrix, rows);
  if (auto kept = panels_[key].lock()) return kept;
  LevelRows levels;
  append_rows(product, rows, &levels);
  return shelve(key, exact_panels(levels, has_quads));
}

std::shared_ptr<const DeviceMemory> WeightShelf::vector_of(const float* values, size_t n) {
  if (values == nullptr) return nullptr;
  const std::string key = fmt::format("{}:{}", static_cast<const void*>(values), n);
  std::weak_ptr<const DeviceMemory>& shelved = vectors_[key];
  if (auto kept = shelved.lock()) return kept;
  auto made = std::make_shared<const DeviceMemory>(device_, values, n * sizeof(float));
  shelved = made;
  return made;
}

size_t WeightShelf::bytes() const {
  size_t n = 0;
  for (const auto& [key, shelved] : panels_) {
    if (const auto kept = shelved.lock()) n += kept->bytes();
  }
  for (const auto& [key, shelved] : vectors_) {
    if (const auto kept = shelved.lock()) n += kept->bytes();
  }
  return n;
}

void ScratchMemory::reserve(size_t wanted) {
  if (wanted <= bytes()) return;
  // Executables that are built already keep what they have if this throws.
  memory_ = std::make_unique<DeviceMemory>(device_, wanted);
}

Place DeviceTools::place_of(const void* value) const {
  const Place place = memory.locate(value);
  if (place.buffer != nullptr) return place;
  throw Error(fmt::format(
      "The OpenCL device '{}' cannot read values where another device's lane keeps them. Leave one "
      "of the two out of ‹lanes›.",
      device->entry().name));
}

}  // namespace troika::lanes::opencl
