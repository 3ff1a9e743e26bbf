#include "lanes/opencl/driver/opencl_library.h"

#include <fmt/format.h>

#include <algorithm>
#ifndef TROIKA_STATIC
#include <dlfcn.h>
#endif

#include "base/error.h"

namespace troika::lanes::opencl {
namespace {

struct StatusName {
  Int status;
  const char* name;
};
constexpr StatusName kStatusNames[] = {
    {-1, "CL_DEVICE_NOT_FOUND"},
    {-2, "CL_DEVICE_NOT_AVAILABLE"},
    {-3, "CL_COMPILER_NOT_AVAILABLE"},
    {-4, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
    {-5, "CL_OUT_OF_RESOURCES"},
    {-6, "CL_OUT_OF_HOST_MEMORY"},
    {-11, "CL_BUILD_PROGRAM_FAILURE"},
    {-14, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"},
    {-30, "CL_INVALID_VALUE"},
    {-36, "CL_INVALID_COMMAND_QUEUE"},
    {-38, "CL_INVALID_MEM_OBJECT"},
    {-42, "CL_INVALID_BINARY"},
    {-46, "CL_INVALID_KERNEL_NAME"},
    {-52, "CL_INVALID_KERNEL_ARGS"},
    {-54, "CL_INVALID_WORK_GROUP_SIZE"},
    {-61, "CL_INVALID_BUFFER_SIZE"},
    {kNoPlatform, "CL_PLATFORM_NOT_FOUND_KHR"},
    {kForeignCache, "keys and values lie in memory that it does not share, or in another type"},
};

#ifndef TROIKA_STATIC

void* open_library(const std::string& file) {
  const char* const name = file.empty() ? "libOpenCL.so.1" : file.c_str();
  // The library is never closed, because drivers keep threads until the program ends.
  void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  const char* const why = dlerror();
  throw Error(fmt::format(
      "OpenCL cannot be loaded: {}. Install the driver of your device and an OpenCL loader (on "
      "Debian 'ocl-icd-libopencl1'), let TROIKA_OPENCL name another library file; or leave lanes "
      "of the kind 'opencl' out of ‹lanes›.",
      why != nullptr ? why : name));
}

template <typename Function>
void find(void* library, const char* name, Function** function) {
  *function = reinterpret_cast<Function*>(dlsym(library, name));
  if (*function != nullptr) return;
  throw Error(fmt::format(
      "The library of OpenCL has no function {}: it is older than OpenCL 1.2. Install a newer one.",
      name));
}

void find_objects(void* library, Api* api) {
  find(library, "clGetPlatformIDs", &api->platforms);
  find(library, "clGetPlatformInfo", &api->platform_info);
  find(library, "clGetDeviceIDs", &api->devices);
  find(library, "clGetDeviceInfo", &api->device_info);
  find(library, "clCreateContext", &api->create_context);
  find(library, "clReleaseContext", &api->release_context);
  find(library, "clCreateCommandQueue", &api->create_queue);
  find(library, "clReleaseCommandQueue", &api->release_queue);
  find(library, "clFlush", &api->flush);
  find(library, "clFinish", &api->finish);
  find(library, "clCreateBuffer", &api->create_buffer);
  find(library, "clReleaseMemObject", &api->release_buffer);
  find(library, "clEnqueueMapBuffer", &api->map);
  find(library, "clEnqueueUnmapMemObject", &api->unmap);
}

void find_programs(void* library, Api* api) {
  find(library, "clCreateProgramWithSource", &api->create_program);
  find(library, "clCreateProgramWithBinary", &api->import_program);
  find(library, "clBuildProgram", &api->build_program);
  find(library, "clGetProgramInfo", &api->program_info);
  find(library, "clGetProgramBuildInfo", &api->build_info);
  find(library, "clReleaseProgram", &api->release_program);
  find(library, "clCreateKernel", &api->create_kernel);
  find(library, "clReleaseKernel", &api->release_kernel);
  find(library, "clSetKernelArg", &api->set_argument);
  find(library, "clEnqueueNDRangeKernel", &api->run_kernel);
  find(library, "clSetEventCallback", &api->tell);
  find(library, "clEnqueueMarkerWithWaitList", &api->marker);
  find(library, "clWaitForEvents", &api->wait);
  find(library, "clGetEventInfo", &api->event_info);
  find(library, "clReleaseEvent", &api->release_event);
}

#endif

// Returns a text that a call gives in two steps: first its length, then its characters. Empty where
// the call fails.
template <typename Ask>
std::string text_of(Ask ask) {
  size_t size = 0;
  if (ask(0, nullptr, &size) != kOk || size == 0) return {};
  std::string text(size, '\0');
  if (ask(size, text.data(), nullptr) != kOk) return {};
  text.resize(std::min(text.size(), text.find('\0')));
  return text;
}

template <typename Number>
Number number_of(const Api& api, DeviceId id, DeviceInfo info) {
  Number number = 0;
  api.device_info(id, info, sizeof(number), &number, nullptr);
  return number;
}

// Returns how long a group of work items may be along the second and the third dimension.
size_t group_side(const Api& api, DeviceId id) {
  size_t n_bytes = 0;
  if (api.device_info(id, kMostGroupSides, 0, nullptr, &n_bytes) != kOk) return 1;
  std::vector<size_t> sides(n_bytes / sizeof(size_t));
  const bool is_told = sides.size() >= 3 &&
                       api.device_info(id, kMostGroupSides, n_bytes, sides.data(), nullptr) == kOk;
  return is_told ? std::min(sides[1], sides[2]) : 1;
}

// Says whether a list of names, parted by spaces, has this one.
bool has_name(const std::string& list, std::string_view name) {
  return fmt::format(" {} ", list).find(fmt::format(" {} ", name)) != std::string::npos;
}

// Returns what there is in place of a device that there is not, and what to do.
std::string others_of(const std::vector<DeviceEntry>& devices) {
  std::vector<std::string> usable, refused;
  for (size_t i = 0; i < devices.size(); ++i) {
    const DeviceEntry& device = devices[i];
    const std::string name =
        fmt::format("opencl:{} is '{}' of {}", i, device.name, device.platform);
    if (device.refusal.empty()) usable.push_back(name);
    refused.push_back(fmt::format("{}, which {}", name, device.refusal));
  }
  if (!usable.empty()) {
    return fmt::format("{}. Name one of these in ‹lanes›.", fmt::join(usable, ", "));
  }
  return fmt::format("{}. Leave lanes of the kind 'opencl' out of ‹lanes›.",
                     fmt::join(refused, ", "));
}

}  // namespace

Library::Library(const std::string& file) {
#ifdef TROIKA_STATIC
  (void)file;
  throw Error(
      "This program is one static file, which cannot load OpenCL. Leave lanes of the kind 'opencl' "
      "out of ‹lanes›, or take the program that is linked to the system.");
#else
  void* const library = open_library(file);
  find_objects(library, &api_);
  find_programs(library, &api_);
#endif
}

DeviceEntry Library::describe(Platform platform, DeviceId id) const {
  const auto device_text = [&](DeviceInfo info) {
    return text_of([&](size_t size, void* to, size_t* length) {
      return api_.device_info(id, info, size, to, length);
    });
  };
  DeviceEntry entry;
  entry.id = id;
  entry.name = device_text(kDeviceName);
  entry.platform = text_of([&](size_t size, void* to, size_t* length) {
    return api_.platform_info(platform, kPlatformName, size, to, length);
  });
  entry.version = device_text(kDeviceVersion);
  entry.driver = device_text(kDriverVersion);
  entry.is_cpu = (number_of<Bits>(api_, id, kDeviceType) & kIsCpu) != 0;
  entry.shares_memory = number_of<UInt>(api_, id, kSharesMemory) != 0;
  const auto float_abilities = number_of<Bits>(api_, id, kFloatAbilities);
  entry.rounds_to_nearest = (float_abilities & kRoundsToNearest) != 0;
  entry.rounds_divisions = (float_abilities & kRoundsDivisions) != 0;
  const std::string extensions = device_text(kDeviceExtensions);
  // Every device with this extension takes the bytes in one number, in kernels of OpenCL C 3.0.
  entry.has_dots =
      has_name(extensions, "cl_khr_integer_dot_product") && entry.version.starts_with("OpenCL 3.");
  entry.has_halves = has_name(extensions, "cl_khr_fp16");
  entry.most_group_items = number_of<size_t>(api_, id, kMostGroupItems);
  entry.most_group_side = group_side(api_, id);
  entry.most_allocation_bytes = number_of<uint64_t>(api_, id, kMostAllocationBytes);
  entry.memory_bytes = number_of<uint64_t>(api_, id, kMemoryBytes);
  entry.refusal = refusal_of(entry);
  return entry;
}

std::string Library::refusal_of(const DeviceEntry& entry) const {
  if (number_of<UInt>(api_, entry.id, kIsAvailable) == 0) return "is not available now";
  if (number_of<UInt>(api_, entry.id, kHasCompiler) == 0) return "has no compiler for kernels";
  if (number_of<UInt>(api_, entry.id, kIsLittleEndian) == 0) return "has another order of bytes";
  if (entry.version.starts_with("OpenCL 1.0") || entry.version.starts_with("OpenCL 1.1")) {
    return fmt::format("has '{}', and kernels need OpenCL 1.2", entry.version);
  }
  // Values are never copied: each lane reads what the others wrote.
  if (!entry.shares_memory) return "has memory of its own, which lanes cannot share yet";
  return {};
}

std::vector<DeviceEntry> Library::devices() const {
  UInt n_platforms = 0;
  if (api_.platforms(0, nullptr, &n_platforms) != kOk) return {};
  std::vector<Platform> platforms(n_platforms);
  if (n_platforms == 0 || api_.platforms(n_platforms, platforms.data(), nullptr) != kOk) return {};
  std::vector<DeviceEntry> entries;
  for (Platform platform : platforms) {
    UInt n = 0;
    if (api_.devices(platform, kAllDevices, 0, nullptr, &n) != kOk || n == 0) continue;
    std::vector<DeviceId> ids(n);
    if (api_.devices(platform, kAllDevices, n, ids.data(), nullptr) != kOk) continue;
    for (DeviceId id : ids) entries.push_back(describe(platform, id));
  }
  return entries;
}

DeviceEntry Library::device(int number) const {
  const std::vector<DeviceEntry> entries = devices();
  if (entries.empty()) {
    throw Error(
        "OpenCL knows no device on this machine. Install the driver of yours ('clinfo -l' lists "
        "what is there; on Debian 'pocl-opencl-icd' makes a device of the cores); or leave lanes "
        "of the kind 'opencl' out of ‹lanes›.");
  }
  if (number < 0 || static_cast<size_t>(number) >= entries.size()) {
    throw Error(fmt::format("There is no device opencl:{}: {}", number, others_of(entries)));
  }
  const DeviceEntry& entry = entries[static_cast<size_t>(number)];
  if (entry.refusal.empty()) return entry;
  throw Error(fmt::format("The device opencl:{}, '{}' of {}, {}. Leave it out of ‹lanes›.", number,
                          entry.name, entry.platform, entry.refusal));
}

std::string status_name(Int status) {
  const auto* const at =
      std::find_if(std::begin(kStatusNames), std::end(kStatusNames),
                   [&](const StatusName& name) { return name.status == status; });
  return at != std::end(kStatusNames) ? at->name : fmt::format("the error {} of OpenCL", status);
}

void check(Int status, std::string_view what) {
  if (status != kOk) throw Error(fmt::format("{}: {}.", what, status_name(status)));
}

}  // namespace troika::lanes::opencl
