#include "machines/list_devices.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/error.h"
#include "base/system.h"
#include "lanes/opencl/driver/opencl_library.h"
#include "lanes/vendor/openvino_library.h"
#include "text/utf8.h"

namespace troika::machines {
namespace {

std::string named_place(const char* variable) {
  const char* const text = std::getenv(variable);
  return text != nullptr ? text : "";
}

void list_opencl(std::vector<ListedDevice>* all) {
  const lanes::opencl::Library library(named_place("TROIKA_OPENCL"));
  const std::vector<lanes::opencl::DeviceEntry> entries = library.devices();
  if (entries.empty()) (void)library.device(0);  // says what to do
  for (size_t i = 0; i < entries.size(); ++i) {
    const lanes::opencl::DeviceEntry& entry = entries[i];
    all->push_back({fmt::format("opencl:{}", i), "opencl", static_cast<int>(i),
                    text::replace_invalid_utf8(entry.name + " of " + entry.platform),
                    entry.memory_bytes, entry.refusal});
  }
}

void list_openvino(std::vector<ListedDevice>* all) {
  const lanes::openvino::Library library(named_place("TROIKA_OPENVINO"), {});
  int number = 0;
  for (const std::string& device : library.devices()) {
    const std::string name = library.full_name(device);
    all->push_back({"openvino:" + device, "openvino", number++,
                    text::replace_invalid_utf8(name.empty() ? device : name),
                    device == "CPU" ? memory_limit_bytes() : library.memory_bytes(device), ""});
  }
}

}  // namespace

DeviceList list_devices() {
  DeviceList list;
  const auto ask = [&](const char* kind, void (*list_kind)(std::vector<ListedDevice>*)) {
    try {
      list_kind(&list.devices);
    } catch (const Error& error) {
      list.missing.push_back({kind, error.what()});
    }
  };
  ask("opencl", list_opencl);
  ask("openvino", list_openvino);
  return list;
}

}  // namespace troika::machines
