#include "lanes/opencl/driver/device.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/system.h"

namespace troika::lanes::opencl {
namespace {

// PoCL makes one device of all cores. It reads their number from the environment once, when it is
// first used.
void tell_number_of_cores(const std::vector<int>& cores) {
  if (cores.empty()) return;
  setenv("POCL_MAX_PTHREAD_COUNT", std::to_string(cores.size()).c_str(), 0);
}

}  // namespace

Device::Device(const DeviceOptions& options) {
  tell_number_of_cores(options.cores);
  const OnCores on_cores(options.cores);
  library_ = std::make_shared<Library>(options.library);
  entry_ = library_->device(options.number);
  open();
}

Device::Device(std::shared_ptr<const Library> library, int number)
    : library_(std::move(library)), entry_(library_->device(number)) {
  open();
}

void Device::open() {
  started_ = std::make_unique<StartedKernels>(api());
  const std::string what = fmt::format("The OpenCL device '{}' cannot be opened", entry_.name);
  Int status = kOk;
  context_ = api().create_context(nullptr, 1, &entry_.id, nullptr, nullptr, &status);
  check(status, what);
  // A queue without properties runs commands in the order in which they were put into it.
  queue_ = api().create_queue(context_, entry_.id, 0, &status);
  if (status == kOk) return;
  api().release_context(context_);
  check(status, what);
}

Device::~Device() {
  finish();
  api().release_queue(queue_);
  api().release_context(context_);
}

Int Device::finish() const {
  const Int status = api().finish(queue_);
  const Int problem = started_->take_problem();
  return status != kOk ? status : problem;
}

DeviceMemory::DeviceMemory(std::shared_ptr<const Device> device, Bits flags, const void* content,
                           size_t bytes)
    : device_(std::move(device)), bytes_(bytes) {
  Int status = kOk;
  // The driver copies the content that it is given.
  handle_ = device_->api().create_buffer(device_->context(), flags, bytes,
                                         const_cast<void*>(content), &status);
  if (status == kOk) return;
  throw Error(fmt::format(
      "The OpenCL device '{}' has no memory for {} more bytes ({}; it gives {} at most at once). "
      "Compute less on its lane, or leave it out of ‹lanes›.",
      device_->entry().name, bytes, status_name(status), device_->entry().most_allocation_bytes));
}

DeviceMemory::DeviceMemory(std::shared_ptr<const Device> device, const void* content, size_t bytes)
    : DeviceMemory(std::move(device), kReadOnly | kCopyHostPointer, content, bytes) {}

DeviceMemory::DeviceMemory(std::shared_ptr<const Device> device, size_t bytes)
    : DeviceMemory(std::move(device), kReadWrite, nullptr, bytes) {}

DeviceMemory::~DeviceMemory() { device_->api().release_buffer(handle_); }

SharedMemory::~SharedMemory() {
  while (!allocations_.empty()) free(const_cast<std::byte*>(allocations_.begin()->first));
}

bool SharedMemory::map(Allocation* allocation, size_t bytes, std::byte** begin) {
  const Api& api = device_->api();
  Int status = kOk;
  if (device_->entry().is_cpu) {
    try {
      allocation->own = PageBuffer(bytes);
    } catch (const std::bad_alloc&) {
      return false;
    }
    *begin = allocation->own.get();
    allocation->handle =
        api.create_buffer(device_->context(), kReadWrite | kUseHostPointer, bytes, *begin, &status);
    return status == kOk;
  }
  allocation->handle =
      api.create_buffer(device_->context(), kReadWrite | kAllocateForHost, bytes, nullptr, &status);
  if (status != kOk) return false;
  *begin =
      static_cast<std::byte*>(api.map(device_->queue(), allocation->handle, 1, kMapRead | kMapWrite,
                                      0, bytes, 0, nullptr, nullptr, &status));
  if (status != kOk) {
    api.release_buffer(allocation->handle);
    return false;
  }
  std::memset(*begin, 0, bytes);
  return true;
}

std::byte* SharedMemory::allocate(size_t bytes) {
  Allocation allocation;
  allocation.bytes = bytes;
  std::byte* begin = nullptr;
  if (!map(&allocation, bytes, &begin)) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  allocations_.emplace(begin, std::move(allocation));
  return begin;
}

void SharedMemory::free(std::byte* begin) noexcept {
  Allocation allocation;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto at = allocations_.find(begin);
    if (at == allocations_.end()) return;
    allocation = std::move(at->second);
    allocations_.erase(at);
  }
  const Api& api = device_->api();
  if (!device_->entry().is_cpu) {
    api.unmap(device_->queue(), allocation.handle, begin, 0, nullptr, nullptr);
  }
  // The device must be idle before its memory goes with the allocation.
  api.finish(device_->queue());
  api.release_buffer(allocation.handle);
}

Place SharedMemory::locate(const void* address) const {
  const auto* const byte = static_cast<const std::byte*>(address);
  const std::lock_guard<std::mutex> lock(mutex_);
  auto at = allocations_.upper_bound(byte);
  if (at == allocations_.begin()) return {};
  --at;
  if (byte >= at->first + at->second.bytes) return {};
  return {at->second.handle, static_cast<uint64_t>(byte - at->first)};
}

}  // namespace troika::lanes::opencl
