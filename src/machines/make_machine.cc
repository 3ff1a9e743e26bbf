#include "machines/make_machine.h"

#include <fmt/format.h>

#include "lanes/host/host_lane.h"
#include "lanes/host/host_machine.h"
#include "machines/devices.h"

namespace troika::machines {

std::unique_ptr<lanes::Machine> make_host(const kernels::Table& kernels, const plan::Plan& plan,
                                          const prepare::LoadedWeights& weights, bool keeps_files) {
  const lanes::Int8Rules* rules = weights.int8.rules();
  const weights::ChannelFile* channels = weights.channel_file.get();
  const auto make_device = [&](const plan::PlannedLane& lane) {
    return make_device_lane(kernels, lane, plan, rules, keeps_files);
  };
  if (channels == nullptr) {
    return std::make_unique<lanes::HostMachine>(kernels, plan, rules, nullptr, make_device);
  }
  // The open file is the one that was checked, whatever file takes its name meanwhile.
  lanes::DiskOptions disk;
  disk.files = {fmt::format("/proc/self/fd/{}", channels->descriptor())};
  disk.names = {channels->path()};
  return std::make_unique<lanes::HostMachine>(kernels, plan, rules, &disk, make_device);
}

std::unique_ptr<lanes::VirtualPhone> make_phone(const PhoneSetup& setup,
                                                const kernels::Table& kernels,
                                                const plan::Plan& plan, bool has_values) {
  std::unique_ptr<lanes::Lane> values;
  if (has_values) {
    const plan::PlannedLane all_cores = {{}, setup.n_threads, "host"};
    values = std::make_unique<lanes::HostLane>(kernels, all_cores, plan.activations,
                                               plan::Prefill::kSame);
  }
  return std::make_unique<lanes::VirtualPhone>(setup.model, setup.options, std::move(values));
}

}  // namespace troika::machines
