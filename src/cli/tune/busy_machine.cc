#include "cli/tune/busy_machine.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string_view>
#include <thread>

#include "base/system.h"
#include "cli/output.h"

namespace troika::cli {
namespace {

struct Ticks {
  double busy = 0.0, all = 0.0;
};

// Returns what these cores have done since the system started, by the lines "cpu0 ..." of
// /proc/stat.
Ticks ticks_of(const std::string& text, const std::vector<int>& cores) {
  constexpr int kFields = 8, kIdle = 3, kWaiting = 4;  // user, nice, system, idle, iowait, ...
  constexpr std::string_view kName = "cpu";
  const std::set<int> wanted(cores.begin(), cores.end());
  Ticks ticks;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    int core = 0;
    const char* const end = line.data() + line.size();
    if (!line.starts_with(kName)) continue;
    // The first line has no number: it is that of all cores of the machine.
    const auto [rest, failure] = std::from_chars(line.data() + kName.size(), end, core);
    if (failure != std::errc() || !wanted.contains(core)) continue;
    std::istringstream fields(std::string(rest, end));
    double value = 0.0;
    for (int i = 0; i < kFields && fields >> value; ++i) {
      ticks.all += value;
      if (i != kIdle && i != kWaiting) ticks.busy += value;
    }
  }
  return ticks;
}

std::string text_of_stat() {
  std::ifstream file("/proc/stat");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

double busy_share(const std::string& before, const std::string& after,
                  const std::vector<int>& cores) {
  const Ticks first = ticks_of(before, cores), last = ticks_of(after, cores);
  return last.all > first.all ? (last.busy - first.busy) / (last.all - first.all) : 0.0;
}

bool is_machine_busy(const std::string& what_follows) {
  constexpr double kBusy = 0.15;
  const std::string before = text_of_stat();
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  const double share = busy_share(before, text_of_stat(), usable_core_numbers());
  if (share < kBusy) return false;
  note(fmt::format(
      "note: other programs keep {:.0f} % of the cores busy that this one may use: {}\n",
      100 * share, what_follows));
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
