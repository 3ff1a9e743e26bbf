#include "lanes/opencl/driver/programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"

namespace troika::lanes::opencl {
namespace {

struct Source {
  const char* name;
  const char* text;
};
constexpr Source kSources[] = {
    {
        "product",
#include "opencl_kernels/product.inl"
    },
    {
        "pointwise",
#include "opencl_kernels/pointwise.inl"
    },
    {
        "attention",
#include "opencl_kernels/attention.inl"
    },
};

constexpr const char* kStandard = "-cl-std=CL1.2";
// A program asks for this only where the device can do it.
constexpr const char* kRoundDivisions = " -cl-fp32-correctly-rounded-divide-sqrt";
constexpr size_t kLongestLog = 1200;

const char* text_of(const std::string& source) {
  for (const Source& known : kSources) {
    if (source == known.name) return known.text;
  }
  assert_failed("a source of kernels/", __FILE__, __LINE__);
}

// Returns the head that stands before a program in its file.
std::string head_of(uint64_t key, std::string_view binary) {
  return fmt::format("troika opencl 1 {:016x} {:016x} {:016x}\n", key, binary.size(),
                     hash_of(binary));
}

std::string log_of(const Device& device, Program program) {
  size_t size = 0;
  const Api& api = device.api();
  if (api.build_info(program, device.entry().id, kBuildLog, 0, nullptr, &size) != kOk) return {};
  std::string log(size, '\0');
  if (api.build_info(program, device.entry().id, kBuildLog, size, log.data(), nullptr) != kOk) {
    return {};
  }
  log.resize(std::min({log.size(), log.find('\0'), kLongestLog}));
  while (!log.empty() && (log.back() == '\n' || log.back() == ' ')) log.pop_back();
  return log;
}

}  // namespace

BoundKernel::BoundKernel(std::shared_ptr<const Device> device, Program program, const char* name)
    : device_(std::move(device)) {
  Int status = kOk;
  kernel_ = device_->api().create_kernel(program, name, &status);
  check(status, fmt::format("The OpenCL device '{}' does not give the kernel '{}'",
                            device_->entry().name, name));
}

BoundKernel::~BoundKernel() { device_->api().release_kernel(kernel_); }

Int BoundKernel::run(size_t n_0, size_t n_1) {
  if (status_ != kOk) return status_;
  const size_t sizes[] = {n_0, n_1};
  // On cores each item is a group of its own; other devices know better which items to group.
  const size_t together[] = {1, 1};
  return device_->api().run_kernel(device_->queue(), kernel_, 2, nullptr, sizes,
                                   device_->entry().is_cpu ? together : nullptr, 0, nullptr,
                                   nullptr);
}

Programs::Programs(std::shared_ptr<const Device> device, std::string folder)
    : device_(std::move(device)), folder_(std::move(folder)) {}

Programs::~Programs() {
  for (const auto& [key, program] : programs_) device_->api().release_program(program);
}

uint64_t Programs::key_of(const std::string& text, const std::string& options) const {
  const DeviceEntry& entry = device_->entry();
  Fnv hash;
  for (const std::string& part :
       {entry.platform, entry.name, entry.version, entry.driver, options, text}) {
    hash.add(uint64_t{part.size()});
    hash.add(part);
  }
  return hash.value();
}

std::string Programs::path_of(uint64_t key) const {
  return fmt::format("{}/{:016x}.program", folder_, key);
}

Program Programs::compile(const std::string& text, const std::string& name,
                          const std::string& options) {
  const Api& api = device_->api();
  const char* begin = text.c_str();
  const size_t length = text.size();
  Int status = kOk;
  const Program program = api.create_program(device_->context(), 1, &begin, &length, &status);
  check(status, fmt::format("The OpenCL device '{}' takes no kernels", device_->entry().name));
  status = api.build_program(program, 1, &device_->entry().id, options.c_str(), nullptr, nullptr);
  if (status == kOk) return program;
  const std::string log = log_of(*device_, program);
  api.release_program(program);
  throw Error(fmt::format(
      "The driver of the OpenCL device '{}' does not compile the kernels of '{}' with '{}' ({}). "
      "Leave the device out of ‹lanes›, or try another driver. It says: {}",
      device_->entry().name, name, options, status_name(status), log.empty() ? "nothing" : log));
}

Program Programs::import(uint64_t key, const std::string& options) {
  std::optional<std::string> file = read_whole_file(path_of(key));
  if (!file) return nullptr;
  const size_t length = head_of(key, "").size();
  const std::string_view all = *file;
  ++n_damaged_;
  if (all.size() < length || all.substr(0, length) != head_of(key, all.substr(length))) {
    return nullptr;
  }
  const Api& api = device_->api();
  const std::string_view binary = all.substr(length);
  const auto* begin = reinterpret_cast<const unsigned char*>(binary.data());
  const size_t n_bytes = binary.size();
  Int status = kOk, of_device = kOk;
  const Program program = api.import_program(device_->context(), 1, &device_->entry().id, &n_bytes,
                                             &begin, &of_device, &status);
  if (status != kOk || of_device != kOk) return nullptr;
  if (api.build_program(program, 1, &device_->entry().id, options.c_str(), nullptr, nullptr) !=
      kOk) {
    api.release_program(program);
    return nullptr;
  }
  --n_damaged_;
  return program;
}

void Programs::keep(uint64_t key, Program program) {
  const Api& api = device_->api();
  size_t n_bytes = 0;
  try {
    if (api.program_info(program, kBinarySizes, sizeof(n_bytes), &n_bytes, nullptr) != kOk ||
        n_bytes == 0) {
      throw Error("the driver does not give them");
    }
    std::string binary(n_bytes, '\0');
    char* to = binary.data();
    if (api.program_info(program, kBinaries, sizeof(to), static_cast<void*>(&to), nullptr) != kOk) {
      throw Error("the driver does not give them");
    }
    std::error_code ignored;
    std::filesystem::create_directories(folder_, ignored);
    AtomicFile file(path_of(key));
    file.write(head_of(key, binary));
    file.write(binary);
    file.commit();
  } catch (const Error& error) {
    if (write_problem_.empty()) write_problem_ = error.what();
  }
}

Program Programs::build(const std::string& text, const std::string& name,
                        const std::string& options) {
  const std::string all_options = fmt::format(
      "{}{} {}", kStandard, device_->entry().rounds_divisions ? kRoundDivisions : "", options);
  const uint64_t key = key_of(text, all_options);
  const auto at = programs_.find(key);
  if (at != programs_.end()) return at->second;
  const RealClock clock;
  const double start = clock.now_us();
  Program program = folder_.empty() ? nullptr : import(key, all_options);
  if (program != nullptr) {
    ++costs_.n_imported;
    costs_.import_us += clock.now_us() - start;
  } else {
    program = compile(text, name, all_options);
    ++costs_.n_compiled;
    costs_.compile_us += clock.now_us() - start;
    if (!folder_.empty()) keep(key, program);
  }
  programs_.emplace(key, program);
  return program;
}

std::unique_ptr<BoundKernel> Programs::kernel(const std::string& source, const std::string& options,
                                              const char* name) {
  return std::make_unique<BoundKernel>(device_, build(text_of(source), source, options), name);
}

std::string Programs::problem() const {
  std::string text;
  if (n_damaged_ > 0) {
    text = fmt::format(
        "{} of the compiled programs in {} were damaged or of another version, and have been "
        "compiled again.",
        n_damaged_, folder_);
  }
  if (write_problem_.empty()) return text;
  return text + fmt::format("{}Compiled programs are not kept in {}: {}", text.empty() ? "" : " ",
                            folder_, write_problem_);
}

}  // namespace troika::lanes::opencl
