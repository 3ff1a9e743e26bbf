#include "cli/tune/busy_machine.h"

#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <thread>
#include <utility>

#include "base/system.h"
#include "cli/output.h"

namespace troika::cli {
namespace {

// Returns what all cores have done since they started, in ticks of the system: busy ones, and all.
std::pair<double, double> ticks() {
  std::ifstream file("/proc/stat");
  std::string name;
  double busy = 0.0, all = 0.0, value = 0.0;
  constexpr int kFields = 8, kIdle = 3, kWaiting = 4;  // user, nice, system, idle, iowait, ...
  file >> name;
  for (int i = 0; i < kFields && file >> value; ++i) {
    all += value;
    if (i != kIdle && i != kWaiting) busy += value;
  }
  return {busy, all};
}

}  // namespace

bool is_machine_busy(const std::string& what_follows) {
  constexpr double kBusy = 0.15;
  const auto before = ticks();
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  const auto after = ticks();
  const double all = after.second - before.second;
  const double share = all > 0 ? (after.first - before.first) / all : 0.0;
  if (share < kBusy) return false;
  note(fmt::format("note: other programs keep {:.0f} % of this machine busy: {}\n", 100 * share,
                   what_follows));
  return true;
}

std::string busy_profile_text(double load_average) {
  const int n_cores = usable_cores();
  if (load_average <= n_cores) return {};
  return fmt::format(
      "The profile was taken under a load of {:.1f} on {} cores, so its times may be too long: "
      "'troika profile MODEL --again' measures anew where nothing else runs.\n",
      load_average, n_cores);
}

}  // namespace troika::cli
