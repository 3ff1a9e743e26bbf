#include "plan/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace troika::plan {
namespace {

constexpr DeviceKind kKinds[] = {
    {.name = "opencl",
     .meaning = "the number of an OpenCL device",
     .is_numbered = true,
     .has_exact_int8 = true,
     .takes_steps = true,
     .only_multiplies = false},
    {.name = "openvino",
     .meaning = "the name of a device of OpenVINO, as CPU",
     .is_numbered = false,
     .has_exact_int8 = true,
     .takes_steps = false,
     .only_multiplies = true},
};
constexpr int kMostDevices = 256;
constexpr size_t kLongestName = 64;

bool is_number(std::string_view text) {
  int number = 0;
  const char* const end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data(), end, number);
  // Zeros before a number would make two texts for one device.
  return result.ec == std::errc() && result.ptr == end && number >= 0 && number < kMostDevices &&
         (text.size() == 1 || text[0] != '0');
}

bool is_name(std::string_view text) {
  const auto is_fine = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !text.empty() && text.size() <= kLongestName &&
         std::all_of(text.begin(), text.end(), is_fine);
}

}  // namespace

const DeviceKind* device_kind(std::string_view name) {
  const auto* const at = std::find_if(std::begin(kKinds), std::end(kKinds),
                                      [&](const DeviceKind& kind) { return kind.name == name; });
  return at == std::end(kKinds) ? nullptr : at;
}

std::string device_kind_names() {
  std::string names;
  for (const DeviceKind& kind : kKinds) {
    names += fmt::format("{}{}", names.empty() ? "" : ", ", kind.name);
  }
  return names;
}

void check_device(const PlannedLane& lane, const std::function<void(const std::string&)>& fail) {
  const DeviceKind* const kind = device_kind(lane.kind);
  if (kind == nullptr) {
    fail(fmt::format("'{}' is no kind of a device; known are {}", lane.kind, device_kind_names()));
    return;
  }
  const bool is_fine = kind->is_numbered ? is_number(lane.device) : is_name(lane.device);
  if (is_fine) return;
  fail(fmt::format("'{}' is no device: behind '{}:' stands {}", lane.device, kind->name,
                   kind->meaning));
}

DeviceText device_from_text(std::string_view text) {
  const size_t colon = text.find(':');
  const size_t at = text.find('@', colon == text.npos ? 0 : colon);
  DeviceText parsed;
  parsed.lane.kind = text.substr(0, colon);
  parsed.lane.n_threads = 0;
  if (colon != text.npos) parsed.lane.device = text.substr(colon + 1, at - (colon + 1));
  if (at != text.npos) parsed.cores = text.substr(at + 1);
  return parsed;
}

}  // namespace troika::plan
