#include "lanes/opencl/driver/programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

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
    {
        "experts",
#include "opencl_kernels/experts.inl"
    },
};

// What options say of the standard of a program counts; else it is this one.
constexpr std::string_view kStandard = "-cl-std=";
constexpr const char* kFirstStandard = "-cl-std=CL1.2";
// A program asks for this only where the device can do it.
constexpr const char* kRoundDivisions = " -cl-fp32-correctly-rounded-divide-sqrt";
constexpr size_t kLongestLog = 1200;

constexpr KeptKind kKeptPrograms = {"opencl", ".program", "compiled programs of OpenCL", "opencl-"};

const char* text_of(const std::string& source) {
  for (const Source& known : kSources) {
    if (source == known.name) return known.text;
  }
  assert_failed("a source of kernels/", __FILE__, __LINE__);
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
  const size_t sizes[] = {n_0, n_1};
  // On cores each item is a group of its own; other devices know better which items to group.
  const size_t together[] = {1, 1};
  return start(2, sizes, device_->entry().is_cpu ? together : nullptr);
}

Int BoundKernel::run_groups(size_t n_0, size_t n_1, size_t of_1, size_t n_2) {
  const size_t sizes[] = {n_0, (n_1 + of_1 - 1) / of_1 * of_1, n_2};
  const size_t together[] = {1, of_1, n_2};
  return start(3, sizes, together);
}

Int BoundKernel::start(UInt n, const size_t* sizes, const size_t* together) {
  if (status_ != kOk) return status_;
  Event event = nullptr;
  const Int status = device_->api().run_kernel(device_->queue(), kernel_, n, nullptr, sizes,
                                               together, 0, nullptr, &event);
  if (status == kOk) device_->started().add(event);
  return status;
}

Programs::Programs(std::shared_ptr<const Device> device, std::string folder)
    : device_(std::move(device)), kept_(std::move(folder), kKeptPrograms) {}

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

Program Programs::import(std::string_view binary, const std::string& options) const {
  const Api& api = device_->api();
  const auto* begin = reinterpret_cast<const unsigned char*>(binary.data());
  const size_t n_bytes = binary.size();
  Int status = kOk, of_device = kOk;
  const Program program = api.import_program(device_->context(), 1, &device_->entry().id, &n_bytes,
                                             &begin, &of_device, &status);
  if (status != kOk) return nullptr;
  if (of_device == kOk && api.build_program(program, 1, &device_->entry().id, options.c_str(),
                                            nullptr, nullptr) == kOk) {
    return program;
  }
  api.release_program(program);
  return nullptr;
}

std::string Programs::binary_of(Program program) const {
  const Api& api = device_->api();
  size_t n_bytes = 0;
  if (api.program_info(program, kBinarySizes, sizeof(n_bytes), &n_bytes, nullptr) != kOk ||
      n_bytes == 0) {
    throw Error("the driver does not give them");
  }
  std::string binary(n_bytes, '\0');
  char* to = binary.data();
  if (api.program_info(program, kBinaries, sizeof(to), static_cast<void*>(&to), nullptr) != kOk) {
    throw Error("the driver does not give them");
  }
  return binary;
}

Program Programs::build(const std::string& text, const std::string& name,
                        const std::string& options) {
  const std::string all_options =
      fmt::format("{}{} {}", options.starts_with(kStandard) ? "" : kFirstStandard,
                  device_->entry().rounds_divisions ? kRoundDivisions : "", options);
  const uint64_t key = key_of(text, all_options);
  const auto at = programs_.find(key);
  if (at != programs_.end()) return at->second;
  const RealClock clock;
  const double start = clock.now_us();
  Program program = nullptr;
  if (const std::optional<std::string> binary = kept_.find(key)) {
    program = import(*binary, all_options);
    if (program == nullptr) kept_.note_refused();
  }
  if (program != nullptr) {
    ++costs_.n_imported;
    costs_.import_us += clock.now_us() - start;
  } else {
    program = compile(text, name, all_options);
    ++costs_.n_compiled;
    kept_.keep(key, [&](const std::string&) { return binary_of(program); });
    costs_.compile_us += clock.now_us() - start;
  }
  programs_.emplace(key, program);
  return program;
}

std::unique_ptr<BoundKernel> Programs::kernel(const std::string& source, const std::string& options,
                                              const char* name) {
  return std::make_unique<BoundKernel>(device_, build(text_of(source), source, options), name);
}

}  // namespace troika::lanes::opencl
