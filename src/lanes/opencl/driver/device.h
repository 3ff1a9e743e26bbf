// One device of OpenCL: its context, a queue that works in order, and the memory that it shares
// with this program.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/huge_pages.h"
#include "lanes/memory.h"
#include "lanes/opencl/driver/opencl_library.h"
#include "lanes/opencl/driver/started_kernels.h"

namespace troika::lanes::opencl {

// Says which extensions of OpenCL 1.2 kernels use.
enum class Extensions : uint8_t {
  kOfDevice,  // uses those that the device has
  kNone,
  kEmulated,  // uses all, with plain arithmetic where the device lacks one: slow, for tests
};

struct DeviceOptions {
  std::string library;          // the library's file; empty: the system knows it
  int number = 0;               // the number behind "opencl:"
  std::vector<int> cores = {};  // cores for the driver's threads; empty: any core
  // The folder in which compiled programs are kept; empty: nowhere.
  std::string program_folder = {};
  // The driver's own thread tells when tasks end, so that no thread has to wait for them (H8).
  bool has_fast_handover = false;
  Extensions extensions = Extensions::kOfDevice;
  // Takes the kernels for GPUs on a device of cores too, for tests.
  bool is_like_gpu = false;
};

class Device {
 public:
  // Throws Error where there is no such library or device.
  explicit Device(const DeviceOptions& options);
  // Opens a device of a library that is loaded already.
  Device(std::shared_ptr<const Library> library, int number);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Api& api() const { return library_->api(); }
  const DeviceEntry& entry() const { return entry_; }
  Context context() const { return context_; }
  Queue queue() const { return queue_; }
  // Knows the kernels that were started since somebody took them. Whoever starts kernels uses it.
  StartedKernels& started() const { return *started_; }
  // Waits until the queue is empty. Returns kOk, or how a kernel that was started failed.
  Int finish() const;

 private:
  void open();

  std::shared_ptr<const Library> library_;
  DeviceEntry entry_;
  Context context_ = nullptr;
  Queue queue_ = nullptr;
  std::unique_ptr<StartedKernels> started_;
};

// Memory of the device that this program writes once.
class DeviceMemory {
 public:
  // Copies content to the device. Throws Error where the device has no memory left.
  DeviceMemory(std::shared_ptr<const Device> device, const void* content, size_t bytes);
  // Takes memory whose content is not known.
  DeviceMemory(std::shared_ptr<const Device> device, size_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  Buffer handle() const { return handle_; }
  size_t bytes() const { return bytes_; }

 private:
  DeviceMemory(std::shared_ptr<const Device> device, Bits flags, const void* content, size_t bytes);

  std::shared_ptr<const Device> device_;
  Buffer handle_ = nullptr;
  size_t bytes_;
};

// An address in the form in which kernels take it.
struct Place {
  Buffer buffer = nullptr;
  uint64_t offset_bytes = 0;

  uint64_t offset_floats() const { return offset_bytes / sizeof(float); }
};

// Memory that device and program see at any time. Devices that are cores work where the allocations
// lie. For other devices the driver makes the allocations, and they stay mapped for as long as they
// live. Any thread may use it.
class SharedMemory : public lanes::Memory {
 public:
  explicit SharedMemory(std::shared_ptr<const Device> device) : device_(std::move(device)) {}
  ~SharedMemory() override;

  std::byte* allocate(size_t bytes) override;
  void free(std::byte* begin) noexcept override;
  size_t most_bytes() const override { return device_->entry().most_allocation_bytes; }
  bool is_taken_at_once() const override { return !device_->entry().is_cpu; }
  // Returns where an address within an allocation lies; a place without memory where no allocation
  // has it.
  Place locate(const void* address) const;

 private:
  struct Allocation {
    Buffer handle = nullptr;
    size_t bytes = 0;
    PageBuffer own;  // only where the device is cores
  };
  bool map(Allocation* allocation, size_t bytes, std::byte** begin);

  std::shared_ptr<const Device> device_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, Allocation> allocations_;
};

}  // namespace troika::lanes::opencl
