// The column of this machine in the figures of llm.npu (N12).
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/system.h"
#include "engine/measure.h"
#include "engine/reproduce_npu.h"

namespace troika::engine {

void measure_llm_npu(const std::string& model, TestReport* report) {
  const std::vector<int> cores = usable_core_numbers();
  if (cores.size() < 2) {
    throw Error("--measure needs two cores that this program may use, for two lanes.");
  }
  constexpr int kPrompt = 1024, kChunk = 128, kRepetitions = 5;
  struct Measured {
    std::vector<double> seconds, idle_percent;
    double median(std::vector<double> values) const {
      std::sort(values.begin(), values.end());
      return values[values.size() / 2];
    }
  };
  const auto measure = [&](const char* order) {
    Options options;
    options.model = model;
    options.lanes = fmt::format("{};{}", cores[0], cores[1]);
    options.placements = {"attention@2=1", "norm@2=1"};
    options.is_cut_at_norms = true;
    options.order = order;
    options.chunk = kChunk;
    options.context = kPrompt + 8;
    Engine engine(options);
    Session session(engine);
    Measured measured;
    for (int i = -1; i < kRepetitions; ++i) {  // the first one warms up
      session.truncate(0);
      engine.scheduler_statistics() = {};
      const double seconds = prefill_seconds(session, kPrompt);
      const schedule::SchedulerStatistics& s = engine.scheduler_statistics();
      if (i < 0) continue;
      measured.seconds.push_back(seconds);
      measured.idle_percent.push_back(100.0 * (1.0 - s.busy_us[0] / s.span_us));
      report->n_decisions += s.n_decisions;
      report->decision_us += s.decision_us;
    }
    return measured;
  };
  const Measured in_order = measure("in-order"), out_of_order = measure("out-of-order");
  for (TestRow& row : report->rows) {
    if (row.base.row->id == "nf050") row.measured = in_order.median(in_order.idle_percent);
    if (row.base.row->id == "nf197") {
      row.measured = 100.0 * (1.0 - out_of_order.median(out_of_order.seconds) /
                                        in_order.median(in_order.seconds));
    }
  }
}

}  // namespace troika::engine
