#include "lanes/vendor/openvino_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "base/error.h"
#include "base/system.h"

namespace troika::lanes::openvino {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLongestProblem = 400;

#ifndef TROIKA_STATIC

constexpr const char* kPlainName = "libopenvino_c.so";
// Lists the folders in which installations keep libraries: an archive, a Python package, a package
// of the system.
constexpr const char* kPlaces[] = {"",   "openvino/libs", "libs", "runtime/lib/intel64", "lib64",
                                   "lib"};

// Returns the first file of that name, whatever version stands behind the name; empty: there is
// none.
std::string file_in(const fs::path& folder) {
  for (const char* place : kPlaces) {
    std::vector<std::string> found;
    std::error_code failure;
    for (auto entry = fs::directory_iterator(folder / place, failure);
         !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
      if (entry->path().filename().string().starts_with(kPlainName)) found.push_back(entry->path());
    }
    if (!found.empty()) return *std::min_element(found.begin(), found.end());
  }
  return {};
}

void* open_library(const std::string& folder) {
  std::string file = kPlainName;
  if (!folder.empty()) {
    file = file_in(folder);
    if (file.empty()) {
      throw Error(fmt::format(
          "There is no {} in {} or where installations keep it below. Let TROIKA_OPENVINO name the "
          "folder of OpenVINO's libraries.",
          kPlainName, folder));
    }
  }
  // The library is never closed, because OpenVINO keeps threads and memory of its own until the
  // program ends.
  void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  const char* const why = dlerror();
  throw Error(fmt::format(
      "OpenVINO cannot be loaded: {}. Install it ('pip install openvino', or an archive from its "
      "makers), and let TROIKA_OPENVINO name the folder of its libraries; or leave lanes of the "
      "kind 'openvino' out of ‹lanes›.",
      why != nullptr ? why : kPlainName));
}

template <typename Function>
void find(void* library, const char* name, Function** function) {
  *function = reinterpret_cast<Function*>(dlsym(library, name));
  if (*function == nullptr) {
    throw Error(
        fmt::format("OpenVINO's library has no function {}. Install OpenVINO {} in its place.",
                    name, kMajorVersion));
  }
}

#endif

}  // namespace

void check_version(std::string_view build_number) {
  int major = 0;
  std::from_chars(build_number.data(), build_number.data() + build_number.size(), major);
  if (major == kMajorVersion) return;
  throw Error(fmt::format(
      "OpenVINO is of version {}, but this program knows only {}. Install that ('pip install "
      "\"openvino=={}.*\"'), and let TROIKA_OPENVINO name the folder of its libraries.",
      build_number, kMajorVersion, kMajorVersion));
}

Library::Library(const std::string& folder, const std::vector<int>& cores) {
#ifdef TROIKA_STATIC
  (void)folder;
  (void)cores;
  throw Error(
      "This program is one static file, which cannot load OpenVINO. Leave lanes of the kind "
      "'openvino' out of ‹lanes›, or take the program that is linked to the system.");
#else
  const OnCores on_cores(cores);
  find_symbols(open_library(folder));
  start();
#endif
}

Library::Library(const Api& api) : api_(api) { start(); }

void Library::start() {
  read_version();
  check_version(version_);
  check(api_.create_core(&core_), "OpenVINO cannot be started");
  try {
    read_types();
  } catch (...) {
    api_.free_core(core_);
    throw;
  }
}

Library::~Library() { api_.free_core(core_); }

void Library::find_symbols(void* library) {
#ifndef TROIKA_STATIC
  find(library, "ov_get_openvino_version", &api_.get_version);
  find(library, "ov_version_free", &api_.free_version);
  find(library, "ov_get_last_err_msg", &api_.last_error);
  find(library, "ov_core_create", &api_.create_core);
  find(library, "ov_core_free", &api_.free_core);
  find(library, "ov_core_get_available_devices", &api_.list_devices);
  find(library, "ov_available_devices_free", &api_.free_devices);
  find(library, "ov_core_set_property", &api_.set_property);
  find(library, "ov_core_get_property", &api_.get_property);
  find(library, "ov_free", &api_.free_text);
  find(library, "ov_core_read_model_from_memory_buffer", &api_.read_model);
  find(library, "ov_model_free", &api_.free_model);
  find(library, "ov_model_const_input_by_index", &api_.model_input);
  find(library, "ov_port_get_element_type", &api_.port_type);
  find(library, "ov_output_const_port_free", &api_.free_port);
  find(library, "ov_core_compile_model", &api_.compile);
  find(library, "ov_core_import_model", &api_.import);
  find(library, "ov_compiled_model_export_model", &api_.export_to);
  find(library, "ov_compiled_model_free", &api_.free_compiled);
  find(library, "ov_compiled_model_create_infer_request", &api_.create_request);
  find(library, "ov_infer_request_free", &api_.free_request);
  find(library, "ov_infer_request_set_input_tensor_by_index", &api_.set_input);
  find(library, "ov_infer_request_set_output_tensor_by_index", &api_.set_output);
  find(library, "ov_infer_request_infer", &api_.infer);
  find(library, "ov_tensor_create", &api_.create_tensor);
  find(library, "ov_tensor_create_from_host_ptr", &api_.create_tensor_at);
  find(library, "ov_tensor_data", &api_.tensor_data);
  find(library, "ov_tensor_free", &api_.free_tensor);
#else
  (void)library;
#endif
}

void Library::read_version() {
  Version version = {};
  check(api_.get_version(&version), "OpenVINO does not say its version");
  version_ = version.build_number;
  api_.free_version(&version);
}

// Reads the numbers of the types from the ports of a graph that has one of each.
void Library::read_types() {
  struct Read {
    const char *name, *precision;
    ElementType* number;
  };
  const Read types[] = {{"f32", "FP32", &float_}, {"u8", "U8", &byte_}, {"bf16", "BF16", &bf16_}};
  std::string layers, edges;
  for (size_t i = 0; i < std::size(types); ++i) {
    const std::string port =
        fmt::format(R"(<port id="0" precision="{}"><dim>1</dim></port>)", types[i].precision);
    const size_t result = i + std::size(types);
    layers += fmt::format(
        R"(<layer id="{}" name="x{}" type="Parameter" version="opset1">)"
        R"(<data shape="1" element_type="{}"/><output>{}</output></layer>)"
        R"(<layer id="{}" name="y{}" type="Result" version="opset1"><input>{}</input></layer>)",
        i, i, types[i].name, port, result, i, port);
    edges += fmt::format(R"(<edge from-layer="{}" from-port="0" to-layer="{}" to-port="0"/>)", i,
                         result);
  }
  const std::string text =
      fmt::format(R"(<?xml version="1.0"?><net name="types" version="11"><layers>{}</layers>)"
                  R"(<edges>{}</edges></net>)",
                  layers, edges);
  constexpr std::string_view kWhat = "OpenVINO does not say the numbers of its types";
  Model* model = nullptr;
  check(api_.read_model(core_, text.data(), text.size(), nullptr, &model), kWhat);
  Status status = kOk;
  for (size_t i = 0; i < std::size(types) && status == kOk; ++i) {
    Port* port = nullptr;
    status = api_.model_input(model, i, &port);
    if (status == kOk) status = api_.port_type(port, types[i].number);
    if (port != nullptr) api_.free_port(port);
  }
  api_.free_model(model);
  check(status, kWhat);
}

std::vector<std::string> Library::devices() const {
  DeviceList list = {};
  check(api_.list_devices(core_, &list), "OpenVINO does not list its devices");
  std::vector<std::string> names(list.names, list.names + list.n);
  api_.free_devices(&list);
  return names;
}

void Library::check_device(const std::string& name) const {
  const std::vector<std::string> names = devices();
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  throw Error(fmt::format(
      "OpenVINO {} has no device '{}' here; it has {}. Name one of these behind 'openvino:' in "
      "‹lanes›, or install the device's driver.",
      version_, name, names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
}

std::string Library::property(const std::string& device, const char* key) const {
  char* text = nullptr;
  const Status status = api_.get_property(core_, device.c_str(), key, &text);
  if (status != kOk || text == nullptr) return {};
  std::string value = text;
  api_.free_text(text);
  return value;
}

// Drivers of GPUs and NPUs come from elsewhere and change alone. An NPU's name does not say of
// which generation it is, but its architecture does.
std::string Library::identity(const std::string& device) const {
  const std::string name = property(device, "FULL_DEVICE_NAME");
  std::string text = name.empty() ? device : name;
  for (const auto& [what, key] : {std::pair{"architecture", "DEVICE_ARCHITECTURE"},
                                  {"driver", "GPU_DRIVER_VERSION"},
                                  {"driver", "NPU_DRIVER_VERSION"},
                                  {"compiler", "NPU_COMPILER_VERSION"}}) {
    const std::string value = property(device, key);
    if (!value.empty()) text += fmt::format(", {} {}", what, value);
  }
  return fmt::format("{} by OpenVINO {}", text, version_);
}

std::string Library::full_name(const std::string& device) const {
  return property(device, "FULL_DEVICE_NAME");
}

uint64_t Library::memory_bytes(const std::string& device) const {
  for (const char* key : {"GPU_DEVICE_TOTAL_MEM_SIZE", "NPU_DEVICE_TOTAL_MEM_SIZE"}) {
    const std::string text = property(device, key);
    uint64_t bytes = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), bytes);
    if (read.ec == std::errc() && bytes > 0) return bytes;
  }
  return 0;
}

void Library::limit_threads(const std::string& device, int n_threads) {
  const std::string n = fmt::format("{}", n_threads);
  const char* const device_name = device.c_str();
  const auto set = [&](const char* key, const char* value) {
    check(api_.set_property(core_, device_name, key, value),
          fmt::format("The device {} of OpenVINO does not take {} = {}", device, key, value));
  };
  set("INFERENCE_NUM_THREADS", n.c_str());
  set("NUM_STREAMS", "1");
  set("ENABLE_CPU_PINNING", "NO");
}

std::string Library::problem() const {
  const char* const kept = api_.last_error();
  if (kept == nullptr) return "it gives no reason";
  std::string text = kept;
  api_.free_text(kept);
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (!text.empty() && (text.back() == ' ' || text.back() == '.')) text.pop_back();
  if (text.size() > kLongestProblem) text = text.substr(0, kLongestProblem) + "…";
  return text;
}

void Library::check(Status status, std::string_view what) const {
  if (status == kOk) return;
  throw Error(fmt::format(
      "{}: {} (status {}). Leave lanes of the kind 'openvino' out of ‹lanes›, or install OpenVINO "
      "anew.",
      what, problem(), status));
}

}  // namespace troika::lanes::openvino
