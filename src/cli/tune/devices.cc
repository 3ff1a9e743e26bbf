#include "cli/tune/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/bytes_text.h"
#include "base/system.h"
#include "cli/output.h"
#include "machines/list_devices.h"

namespace troika::cli {
namespace {

machines::ListedDevice cores_here() {
  return {fmt::format("{}", fmt::join(usable_core_numbers(), ",")),
          "cores",
          0,
          processor_name(),
          memory_limit_bytes(),
          ""};
}

nlohmann::ordered_json json_of(const machines::DeviceList& list) {
  using nlohmann::ordered_json;
  ordered_json json = {{"devices", ordered_json::array()}, {"missing", ordered_json::array()}};
  for (const machines::ListedDevice& device : list.devices) {
    const bool is_known = device.memory_bytes > 0;
    json["devices"].push_back(
        {{"kind", device.kind},
         {"number", device.number},
         {"name", device.name},
         {"lane", device.lane},
         {"memory_bytes", is_known ? ordered_json(device.memory_bytes) : ordered_json()},
         {"problem", device.refusal.empty() ? ordered_json() : ordered_json(device.refusal)}});
  }
  for (const machines::MissingRuntime& runtime : list.missing) {
    json["missing"].push_back({{"kind", runtime.kind}, {"problem", with_flags(runtime.problem)}});
  }
  return json;
}

void print_list(const machines::DeviceList& list) {
  size_t width = 4;
  for (const machines::ListedDevice& device : list.devices) {
    width = std::max(width, device.lane.size());
  }
  print(
      fmt::format("{:<{}}  {:<8} {:>6} {:>10}  name\n", "lane", width, "kind", "number", "memory"));
  for (const machines::ListedDevice& device : list.devices) {
    print(fmt::format(
        "{:<{}}  {:<8} {:>6} {:>10}  {}{}\n", device.lane, width, device.kind, device.number,
        device.memory_bytes > 0 ? bytes_text(device.memory_bytes) : "-", terminal_text(device.name),
        device.refusal.empty() ? "" : ", which " + terminal_text(device.refusal)));
  }
  for (const machines::MissingRuntime& runtime : list.missing) {
    print(fmt::format("no {}: {}\n", runtime.kind, terminal_text(with_flags(runtime.problem))));
  }
}

}  // namespace

void show_devices(bool is_json) {
  machines::DeviceList list = machines::list_devices();
  list.devices.insert(list.devices.begin(), cores_here());
  if (is_json) return print_json(json_of(list));
  print_list(list);
}

}  // namespace troika::cli
