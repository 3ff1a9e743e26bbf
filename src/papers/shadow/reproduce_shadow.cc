#include "papers/shadow/reproduce_shadow.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"

namespace troika::papers {
namespace {

struct ShadowModel {
  const char* published;  // as the paper names it
  const char* known;      // as this program does
  const char* energies;   // the row of Table 8
};
constexpr std::array<ShadowModel, 4> kShadowModels = {{{"PhoneLM-0.5B", "phonelm-0.5b", "sf010"},
                                                       {"PhoneLM-1.5B", "phonelm-1.5b", "sf011"},
                                                       {"Qwen2-0.5B", "qwen2-0.5b", "sf012"},
                                                       {"Qwen2-1.5B", "qwen2-1.5b", "sf013"}}};
// Section 5.1 (sf019, sf020).
struct Dataset {
  const char* name;
  int n_prompt;
  int n_output;
};
constexpr Dataset kArxivSum = {"ArxivSum", 3840, 50};
constexpr Dataset kDroidCall = {"DroidCall", 4096, 10};
constexpr Dataset kOctopus = {"Octopus", 1792, 10};
constexpr std::array kDatasets = {kArxivSum, kDroidCall, kOctopus};
constexpr std::array kKernelLengths = {1024, 2048, 4096};
constexpr std::array kLossy = {ShadowSystem::kSparse, ShadowSystem::kBlocks, ShadowSystem::kNpu};
constexpr const char* kSmall = "phonelm-0.5b";
constexpr const char* kQwen = "qwen2-0.5b";
constexpr const char* kOlderPhone = "8gen2";
constexpr const char* kFourCores = "prime=1,middle=3";
constexpr double kSecondsPerMinute = 60.0;

constexpr const char* kKernels = "kernels, one middle core";
constexpr const char* kShadowRequests = "requests, one middle core";
constexpr const char* kOlder = "requests on the 8 Gen 2";
constexpr const char* kApps = "beside other programs";
constexpr const char* kParts = "what each part is worth";

constexpr const char* kNoAbsolutes =
    "the paper's own times of these prompts contradict each other (K12): ratios count";

struct Gains {
  std::vector<double> over_full, over_lossy;

  double mean() const {
    double sum = 0.0;
    for (const double gain : over_full) sum += gain;
    return sum / static_cast<double>(over_full.size());
  }
  static double most(const std::vector<double>& gains) {
    return *std::max_element(gains.begin(), gains.end());
  }
};

class ShadowReproduction {
 public:
  ShadowReproduction(const PhoneFolder& folder, const std::vector<plan::ConstantChoice>& constants)
      : stack_(folder.stacks.at("shadowattn")), runs_(folder.path, constants), rows_(folder) {}

  TestReport run() {
    add_kernels();
    add_requests();
    add_native();
    add_older_phone();
    add_apps();
    add_parts();
    add_planning();
    return rows_.take("shadowattn");
  }

 private:
  double kernel_s(const char* model, ShadowSystem system, int n_prompt) {
    return runs_.kernel({.model = model, .system = system, .n_prompt = n_prompt}).seconds;
  }
  double request_s(const ShadowRun& run, const Dataset& data) {
    return runs_.request(run).request_s(data.n_output);
  }
  double request_s(const char* model, ShadowSystem system, const Dataset& data) {
    return request_s({.model = model, .system = system, .n_prompt = data.n_prompt}, data);
  }
  void add(const char* id, const char* name, const char* group, TestKind kind, double simulated,
           const std::string& inputs, const char* reason = "") {
    TestRow& row = rows_.add(id, name, group, kind, simulated, inputs);
    row.part = TestPart::kPrompt;
    row.reason = reason;
  }
  // One that nothing simulated.
  TestRow& add_without(const char* id, const char* name, const char* group, const char* reason) {
    TestRow& row = rows_.add(id, name, group, TestKind::kValue, 0.0, "");
    row.base.simulated.reset();
    row.reason = reason;
    return row;
  }

  // Section 5.1, Figure 10.
  void add_kernels() {
    Gains gains;
    for (const ShadowModel& model : kShadowModels) {
      for (const int n : kKernelLengths) {
        add_gains(fmt::format("kernel of {} tokens, {}", n, model.published), &gains,
                  [&](ShadowSystem system) { return kernel_s(model.known, system, n); });
      }
      add_energies(model);
    }
    const std::string inputs = "four models, 1,024 to 4,096 tokens";
    add("sf021", "up to", kKernels, TestKind::kRatio, Gains::most(gains.over_full), inputs);
    add("sf021", "mean", kKernels, TestKind::kRatio, gains.mean(), inputs);
    add("sf022", "", kKernels, TestKind::kRatio, Gains::most(gains.over_lossy), inputs);
  }

  template <typename Seconds>
  void add_gains(const std::string& what, Gains* gains, const Seconds& seconds) {
    const double ours = seconds(ShadowSystem::kShadow), full = seconds(ShadowSystem::kFull);
    gains->over_full.push_back(full / ours);
    for (const ShadowSystem system : kLossy) gains->over_lossy.push_back(seconds(system) / ours);
    const double sparse = seconds(ShadowSystem::kSparse);
    rows_.add_ordering(fmt::format("{}: C/G-Sparse is faster than C/G-Full", what), sparse < full);
    rows_.add_ordering(fmt::format("{}: C/G-Block-Sparse is faster than C/G-Sparse", what),
                       seconds(ShadowSystem::kBlocks) < sparse);
    for (const ShadowSystem system :
         {ShadowSystem::kFull, ShadowSystem::kSparse, ShadowSystem::kBlocks, ShadowSystem::kNpu}) {
      rows_.add_ordering(fmt::format("{}: shadowAttn is faster than {}", what, system_name(system)),
                         ours < seconds(system));
    }
  }

  // Table 8, in its order of columns, on the 8 Gen 2: which of two takes more (K13).
  void add_energies(const ShadowModel& model) {
    const plan::PublishedRow& row = rows_.row_of(model.energies);
    TROIKA_ASSERT(row.values.size() == std::size(kShadowSystems));
    const auto joules = [&](size_t i) {
      return runs_
          .kernel({.model = model.known,
                   .system = kShadowSystems[i],
                   .n_prompt = kKernelLengths[0],
                   .phone = kOlderPhone})
          .joules;
    };
    for (size_t i = 0; i < std::size(kShadowSystems); ++i) {
      for (size_t j = i + 1; j < std::size(kShadowSystems); ++j) {
        rows_.add_ordering(
            fmt::format("energy of a kernel, {}: {} against {}", model.published,
                        system_name(kShadowSystems[i]), system_name(kShadowSystems[j])),
            *row.values[i].value, *row.values[j].value, joules(i), joules(j));
      }
    }
  }

  // Figure 11.
  void add_requests() {
    Gains gains;
    for (const ShadowModel& model : kShadowModels) {
      for (const Dataset& data : kDatasets) {
        add_gains(fmt::format("{}, {}", data.name, model.published), &gains,
                  [&](ShadowSystem system) { return request_s(model.known, system, data); });
      }
    }
    const std::string inputs = "four models, three datasets";
    add("sf023", "up to", kShadowRequests, TestKind::kRatio, Gains::most(gains.over_full), inputs);
    add("sf023", "mean", kShadowRequests, TestKind::kRatio, gains.mean(), inputs);
    add("sf024", "", kShadowRequests, TestKind::kRatio, Gains::most(gains.over_lossy), inputs);
  }

  // Figure 12.
  void add_native() {
    std::vector<double> gains;
    for (const ShadowModel& model : kShadowModels) {
      for (const Dataset& data : kDatasets) {
        const double ours = request_s(model.known, ShadowSystem::kShadow, data);
        const ShadowRun cores = {.model = model.known,
                                 .system = ShadowSystem::kFull,
                                 .n_prompt = data.n_prompt,
                                 .cores = kFourCores};
        const double on_cores = request_s(cores, data);
        const double on_gpu = request_s(model.known, ShadowSystem::kGpu, data);
        gains.push_back(on_cores / ours);
        gains.push_back(on_gpu / ours);
        rows_.add_ordering(
            fmt::format("{}, {}: shadowAttn with one core is faster than full attention on four "
                        "cores or on the GPU",
                        data.name, model.published),
            ours < on_cores || ours < on_gpu);
      }
    }
    add("sf025", "up to", kShadowRequests, TestKind::kRatio, Gains::most(gains),
        "over attention on four cores, or on the GPU");
  }

  // Table 7.
  void add_older_phone() {
    for (const auto& [id, data] :
         {std::pair("sf026", kArxivSum), {"sf027", kOctopus}, {"sf028", kDroidCall}}) {
      const auto seconds = [&, data = data](const char* phone, ShadowSystem system) {
        return request_s(
            {.model = kSmall, .system = system, .n_prompt = data.n_prompt, .phone = phone}, data);
      };
      const double full = seconds(kOlderPhone, ShadowSystem::kFull);
      const double ours = seconds(kOlderPhone, ShadowSystem::kShadow);
      add(id, "before", kOlder, TestKind::kValue, full / kSecondsPerMinute, data.name,
          kNoAbsolutes);
      add(id, "after", kOlder, TestKind::kValue, ours / kSecondsPerMinute, data.name, kNoAbsolutes);
      add(id, "gain", kOlder, TestKind::kRatio, full / ours, data.name);
      rows_.add_ordering(
          fmt::format("{}: less is gained on the 8 Gen 2 than on the 8 Gen 3", data.name),
          full / ours <
              seconds("8gen3", ShadowSystem::kFull) / seconds("8gen3", ShadowSystem::kShadow));
    }
  }

  // Table 9. Other programs keep off the model's core; what they share with it is the bus.
  void add_apps() {
    const auto seconds = [&](double taken_gb_s) {
      ShadowRun run = {.model = kSmall, .n_prompt = kOctopus.n_prompt};
      run.bus_taken_gb_s = taken_gb_s;
      return request_s(run, kOctopus);
    };
    const auto& apps = stack_.apps;
    const double alone = seconds(0.0);
    add("sf029", "", kApps, TestKind::kValue, alone, "Octopus", kNoAbsolutes);
    for (const auto& [id, gb_s] : {std::pair("sf030", apps.photos_gb_s.value),
                                   {"sf031", apps.videos_gb_s.value},
                                   {"sf032", apps.music_gb_s.value},
                                   {"sf033", apps.shopping_gb_s.value}}) {
      const std::string inputs = fmt::format("{:g} GB/s of the bus taken", gb_s);
      add(id, "latency", kApps, TestKind::kValue, seconds(gb_s), inputs, kNoAbsolutes);
      add(id, "over no other app", kApps, TestKind::kRatio, seconds(gb_s) / alone, inputs);
    }
  }

  // Section 5.2, Figures 13, 15 and 16, as far as they say it in words.
  void add_parts() {
    const auto seconds = [&](const ShadowRun& run) { return request_s(run, kOctopus); };
    const ShadowRun ours = {.model = kQwen, .n_prompt = kOctopus.n_prompt};
    ShadowRun run = ours;
    run.step = schedule::HeadStep::kInTurn;
    rows_.add_ordering("without its pipeline shadowAttn is slower", seconds(ours) < seconds(run));
    const double npu = request_s(kQwen, ShadowSystem::kNpu, kOctopus);
    add("sf034", "", kParts, TestKind::kValue, npu / kSecondsPerMinute, "Octopus");
    add_without("sf034", "accuracy", kParts, "needs weights, and the phone computes no values");
    std::vector<double> ours_s, full_s;
    for (const char* cores : {"small=1", kOneMiddle, "prime=1"}) {
      run = ours;
      run.cores = cores;
      ours_s.push_back(seconds(run));
      run.system = ShadowSystem::kFull;
      full_s.push_back(seconds(run));
      rows_.add_ordering(fmt::format("{}: shadowAttn is faster than C/G-Full", cores),
                         ours_s.back() < full_s.back());
    }
    rows_.add_ordering("shadowAttn is faster on a middle core than on a small one",
                       ours_s[1] < ours_s[0]);
    rows_.add_ordering("shadowAttn is faster on the prime core than on a middle one",
                       ours_s[2] < ours_s[1]);
  }

  // Section 3.4. The planner is no model of one: it runs.
  void add_planning() {
    const ShadowResult& result = runs_.request({.model = kSmall, .n_prompt = kOctopus.n_prompt});
    TestRow& row = add_without("sf007", "", kParts,
                               "the planner runs here and takes this machine's time, on average");
    row.measured = 1e-3 * result.planning.us / static_cast<double>(result.planning.n_plans);
  }

  const plan::Stack& stack_;
  ShadowRuns runs_;
  TestRows rows_;
};

constexpr std::string_view kOpenConstants[] = {"cpu.vector_gflops", "npu.int8_tops",
                                               "attention.select_share", "attention.softmax_share"};

}  // namespace

TestReport simulate_shadowattn(const PhoneFolder& folder,
                               const std::vector<plan::ConstantChoice>& constants) {
  return ShadowReproduction(folder, constants).run();
}

std::vector<ShadowSensitivity> sensitivities_of_shadowattn(const PhoneFolder& folder) {
  plan::Stack stack = folder.stacks.at("shadowattn");
  std::vector<ShadowSensitivity> all;
  for (const plan::Field& field : stack.fields()) {
    if (std::find(std::begin(kOpenConstants), std::end(kOpenConstants), field.name) ==
        std::end(kOpenConstants)) {
      continue;
    }
    if (!field.constant->range) {
      throw Error(fmt::format("{}/stacks: no row fixes '{}', so that it needs a range.",
                              folder.path, field.name));
    }
    for (const double value : {field.constant->range->first, field.constant->range->second}) {
      const TestReport report = simulate_shadowattn(folder, {{field.name, value}});
      const auto mean = [&](const char* id) {
        const auto at =
            std::find_if(report.rows.begin(), report.rows.end(), [&](const TestRow& row) {
              return row.base.row->id == id && row.base.value->name == "mean";
            });
        return *at->base.simulated;
      };
      all.push_back({fmt::format("{} = {:.4g}", field.name, value), report.median_error(),
                     mean("sf021"), mean("sf023"), report.count_orderings()});
    }
  }
  return all;
}

std::vector<AblationRow> ablation_of_shadowattn(const PhoneFolder& folder) {
  ShadowRuns runs(folder.path);
  std::vector<AblationRow> rows;
  const auto add = [&](const char* what, const ShadowRun& run) {
    const ShadowResult& result = runs.request(run);
    rows.push_back({what, result.request_s(kOctopus.n_output), result.prefill.joules});
  };
  ShadowRun run = {.model = kQwen, .n_prompt = kOctopus.n_prompt};
  add("all of shadowAttn", run);
  run.step = schedule::HeadStep::kFused;
  add("heads in the order of their buckets", run);
  run.step = schedule::HeadStep::kOverlap;
  add("each head launched by itself", run);
  run.step = schedule::HeadStep::kInTurn;
  add("no pipeline: heads in turn", run);
  run.n_buckets = 1;
  add("one pair of scales", run);
  run.has_equal_shares = true;
  add("equal shares of heads", run);
  run = {.model = kQwen, .system = ShadowSystem::kNpu, .n_prompt = kOctopus.n_prompt};
  add("not sparse: full attention on the NPU", run);
  return rows;
}

std::vector<KernelRow> kernels_of_shadowattn(const PhoneFolder& folder) {
  ShadowRuns runs(folder.path);
  std::vector<KernelRow> rows;
  for (const ShadowModel& model : kShadowModels) {
    for (const ShadowSystem system : kShadowSystems) {
      const KernelResult& result = runs.kernel({.model = model.known,
                                                .system = system,
                                                .n_prompt = kKernelLengths[0],
                                                .phone = kOlderPhone});
      rows.push_back({model.published, system, result});
    }
  }
  return rows;
}

TimelineTitle trace_head_pipeline(const PhoneFolder& folder, Trace* trace) {
  constexpr int kTokens = 2048;
  const ShadowRuns runs(folder.path);
  // The tasks of the last chunk.
  std::vector<TraceEvent> last;
  for (const TraceEvent& event : runs.first_block({.model = kSmall, .n_prompt = kTokens})) {
    if (std::string_view(event.name) == "qkv") last.clear();
    if (event.block == 0) last.push_back(event);
  }
  TROIKA_ASSERT(!last.empty());
  const double begin_us = last.front().start_us;
  for (TraceEvent event : last) {
    event.start_us -= begin_us;
    event.end_us -= begin_us;
    trace->add(event);
  }
  return {fmt::format("{}: attention of the last {} of {} tokens in one block, heads in a pipeline",
                      kSmall, kShadowChunk, kTokens),
          "virtual phone 8gen3 with shadowattn, one middle core; modelled time, nothing is "
          "computed"};
}

}  // namespace troika::papers
