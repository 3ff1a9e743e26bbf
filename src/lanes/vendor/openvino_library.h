// OpenVINO's library, found and loaded when a plan wants it, and one core of it: the object that
// compiles graphs for a device.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lanes/vendor/openvino_api.h"

namespace troika::lanes::openvino {

// Is the version whose graphs and numbers the tests of this program have seen.
inline constexpr int kMajorVersion = 2026;

// Throws Error where a build number ("2026.4.1-22982-…") is not that of kMajorVersion.
void check_version(std::string_view build_number);

// OpenVINO's library. Threads may take turns with it.
class Library {
 public:
  // Loads the file libopenvino_c, which lies in the folder or below it, as an installation has it.
  // An empty name means the library that the system finds. The device's threads stay on the cores.
  // Throws Error, with what to do, where there is no library, or one of another major version.
  Library(const std::string& folder, const std::vector<int>& cores);
  // Uses functions from elsewhere, for tests.
  explicit Library(const Api& api);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  const Api& api() const { return api_; }
  const Core* core() const { return core_; }
  const std::string& version() const { return version_; }
  ElementType float_type() const { return float_; }
  ElementType byte_type() const { return byte_; }
  ElementType bf16_type() const { return bf16_; }

  // Returns the names of devices: "CPU", "GPU.0", …
  std::vector<std::string> devices() const;
  // Throws an Error that lists the devices where none has this name.
  void check_device(const std::string& name) const;
  // Returns which device it is, and which versions of its driver and of OpenVINO work for it.
  std::string identity(const std::string& device) const;
  // Returns the device's name for people, and its memory; 0 where it does not say, as cores do not.
  std::string full_name(const std::string& device) const;
  uint64_t memory_bytes(const std::string& device) const;
  // Gives the device one thread for each core, none of which is bound elsewhere. Throws Error.
  void limit_threads(const std::string& device, int n_threads);

  // Returns what OpenVINO says of the last call that failed, in one line, or that it says nothing.
  // Where two threads fail at once, this may be of the other one.
  std::string problem() const;
  // Throws an Error that says what could not be done, and why, unless the status is good.
  void check(Status status, std::string_view what) const;

 private:
  void find_symbols(void* library);
  void start();
  // Returns what a device says of itself; empty where it says nothing.
  std::string property(const std::string& device, const char* key) const;
  void read_version();
  void read_types();

  Api api_ = {};
  Core* core_ = nullptr;
  std::string version_;
  ElementType float_ = 0, byte_ = 0, bf16_ = 0;
};

}  // namespace troika::lanes::openvino
