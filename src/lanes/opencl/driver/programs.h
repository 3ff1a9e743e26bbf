// Kernels of this program, compiled by a device's driver when they are needed. Where a folder is
// named, compiled kernels are kept there for the next run of the program.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "lanes/kept_files.h"
#include "lanes/opencl/driver/device.h"

namespace troika::lanes::opencl {

// What compiling programs took, all of them together. With compiling counts the time in which the
// driver gives what is kept: some compile only then.
struct ProgramCosts {
  int n_compiled = 0, n_imported = 0;
  double compile_us = 0.0, import_us = 0.0;
};

// A kernel with its own arguments. One thread at a time uses it.
class BoundKernel {
 public:
  // Throws Error where the program has no such kernel.
  BoundKernel(std::shared_ptr<const Device> device, Program program, const char* name);
  ~BoundKernel();
  BoundKernel(const BoundKernel&) = delete;
  BoundKernel& operator=(const BoundKernel&) = delete;

  // Sets arguments in order, from the first on, or from number `first` on. They stay until others
  // take their places. The first failure is told when the kernel runs.
  template <typename... Arguments>
  void set(UInt first, const Arguments&... arguments) {
    (set_one(first++, arguments), ...);
  }
  // Puts the kernel into the device's queue. Returns the status of the call that failed, or kOk.
  Int run(size_t n_0, size_t n_1 = 1);
  // Does so with groups of work items that share memory: (1, of_1, n_2) of (n_0, n_1, n_2), where
  // n_1 is filled up to a multiple of of_1.
  Int run_groups(size_t n_0, size_t n_1, size_t of_1, size_t n_2);

 private:
  // Starts the items of so many dimensions. `together`: the size of a group; null: the device's
  // choice.
  Int start(UInt n, const size_t* sizes, const size_t* together);
  template <typename Argument>
  void set_one(UInt index, const Argument& argument) {
    static_assert(std::is_trivially_copyable_v<Argument>);
    const auto bytes = std::as_bytes(std::span(std::addressof(argument), 1));
    const Int status = device_->api().set_argument(kernel_, index, bytes.size(), bytes.data());
    if (status_ == kOk) status_ = status;
  }

  std::shared_ptr<const Device> device_;
  Kernel kernel_ = nullptr;
  Int status_ = kOk;
};

class Programs {
 public:
  // Keeps programs in `folder`; empty: nowhere.
  Programs(std::shared_ptr<const Device> device, std::string folder);
  ~Programs();
  Programs(const Programs&) = delete;
  Programs& operator=(const Programs&) = delete;

  // Returns a kernel of a source in kernels/, compiled with these options, such as "-DGROUP=32".
  // Throws an Error with the driver's message where the driver does not compile it.
  std::unique_ptr<BoundKernel> kernel(const std::string& source, const std::string& options,
                                      const char* name);
  // Compiles a program of any text.
  Program build(const std::string& text, const std::string& name, const std::string& options);

  const ProgramCosts& costs() const { return costs_; }
  // Says to people what went wrong with the folder; empty: nothing.
  std::string problem() const { return kept_.problem(); }

 private:
  Program compile(const std::string& text, const std::string& name, const std::string& options);
  // Returns null where the driver refuses it.
  Program import(std::string_view binary, const std::string& options) const;
  // Returns what the driver made of a program. Throws Error where it does not give that.
  std::string binary_of(Program program) const;
  uint64_t key_of(const std::string& text, const std::string& options) const;

  std::shared_ptr<const Device> device_;
  KeptFiles kept_;
  std::map<uint64_t, Program> programs_;
  ProgramCosts costs_;
};

}  // namespace troika::lanes::opencl
