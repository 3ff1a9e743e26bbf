#include "papers/shadow/reproduce_shadow.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string_view>

#include "base/error.h"
#include "papers/figures.h"
#include "papers/given.h"
#include "papers/model_name.h"

namespace troika::papers {
namespace {

constexpr ModelName kShadowModels[] = {{"PhoneLM-0.5B", "phonelm-0.5b"},
                                       {"PhoneLM-1.5B", "phonelm-1.5b"},
                                       {"Qwen2-0.5B", "qwen2-0.5b"},
                                       {"Qwen2-1.5B", "qwen2-1.5b"}};
// Table 8 has the energy of kernels: a row for each model, a value for each of kShadowSystems.
constexpr const char* kEnergyRows[] = {"sf010", "sf011", "sf012", "sf013"};
constexpr const char* kEnergyValues[] = {"full", "sparse", "block-sparse (CPU)", "full (NPU)",
                                         "shadowAttn"};
static_assert(std::size(kEnergyRows) == std::size(kShadowModels) &&
              std::size(kEnergyValues) == std::size(kShadowSystems));
// A dataset of section 5.1.
struct Dataset {
  std::string name;
  int n_prompt = 0;
  int n_output = 0;
};
constexpr const char* kArxivSum = "ArxivSum";
constexpr const char* kDroidCall = "DroidCall";
constexpr const char* kOctopus = "Octopus";
constexpr const char* kPaperName = "shadowattn";
constexpr const char* kKernelLengths = "tokens of kernels";
constexpr const char* kSmall = "phonelm-0.5b";
constexpr const char* kQwen = "qwen2-0.5b";
constexpr const char* kOlderPhone = "8gen2";
// Names full attention on four cores, for the comparison with more cores than one (Figure 12).
constexpr const char* kFullOnFourCores = "C/G-Full on four cores";
constexpr const char* kFourCores = "prime=1,middle=3";
constexpr double kSecondsPerMinute = 60.0;
// Names the one figure that this machine gives: the planner is no model of a planner, it runs
// (section 3.4).
constexpr const char* kPlanning = "planning ms";

// Throws Error where the dataset is not known.
Dataset dataset(const Given& given, const std::string& name) {
  return {name, given.count("tokens of a prompt of " + name),
          given.count("tokens of an answer of " + name)};
}

ShadowRun shadow_run_of(const plan::FigureCall& call) {
  ShadowRun run{.model = call.text("model")};
  if (call.has("phone")) run.phone = call.text("phone");
  const std::string& name = call.text("system");
  if (name == kFullOnFourCores) {
    run.system = ShadowSystem::kFull;
    run.cores = kFourCores;
    return run;
  }
  for (const ShadowSystem system :
       {ShadowSystem::kFull, ShadowSystem::kSparse, ShadowSystem::kBlocks, ShadowSystem::kNpu,
        ShadowSystem::kShadow, ShadowSystem::kGpu}) {
    if (name != system_name(system)) continue;
    run.system = system;
    return run;
  }
  throw Error(fmt::format("A figure of shadowAttn is asked for '{}', which is not known.", name));
}

class ShadowReproduction {
 public:
  ShadowReproduction(const PhoneFolder& folder, const std::vector<plan::ConstantChoice>& constants)
      : stack_(folder.stacks.at(kPaperName)),
        given_(folder.path, kPaperName),
        datasets_{dataset(given_, kArxivSum), dataset(given_, kDroidCall),
                  dataset(given_, kOctopus)},
        runs_(folder.path, constants),
        rows_(folder) {}

  TestReport run() {
    add_figures();
    add_rows(plan::read_simulated(rows_.folder().path + "/simulated/shadowattn.json"), figures_,
             &rows_);
    add_gain_orders();
    add_native_orders();
    add_older_phone_orders();
    add_parts_orders();
    TestReport report = rows_.take(kPaperName);
    for (TestRow& row : report.rows) {
      if (row.measured_by == kPlanning) row.measured = planning_ms();
    }
    return report;
  }

 private:
  // Adds the figures that stand beside published rows as phones/simulated/shadowattn.json says.
  void add_figures() {
    const auto kernel = [this](const plan::FigureCall& call) -> const KernelResult& {
      ShadowRun run = shadow_run_of(call);
      run.n_prompt = call.count("tokens");
      return runs_.kernel(run);
    };
    const std::vector<std::string> of_kernel = {"model", "system", "tokens", "phone"};
    figures_.add("kernel s", of_kernel,
                 [kernel](const plan::FigureCall& call) { return kernel(call).seconds; });
    figures_.add("kernel joules", of_kernel,
                 [kernel](const plan::FigureCall& call) { return kernel(call).joules; });
    const auto request = [this](const plan::FigureCall& call) {
      const Dataset data = dataset(given_, call.text("dataset"));
      ShadowRun run = shadow_run_of(call);
      run.n_prompt = data.n_prompt;
      if (call.has("other program")) run.bus_taken_gb_s = bus_taken_by(call.text("other program"));
      return request_s(run, data);
    };
    const std::vector<std::string> of_request = {"model", "system", "dataset", "phone",
                                                 "other program"};
    figures_.add("request s", of_request, request);
    figures_.add("request minutes", of_request, [request](const plan::FigureCall& call) {
      return request(call) / kSecondsPerMinute;
    });
    figures_.add("bus GB/s taken", {"other program"}, [this](const plan::FigureCall& call) {
      return bus_taken_by(call.text("other program"));
    });
  }

  // Returns the bandwidth that another program takes. It keeps off the model's core, and shares the
  // bus with it (Table 9).
  double bus_taken_by(const std::string& program) const {
    if (program == "none") return 0.0;
    if (program == "photos") return stack_.apps.photos_gb_s.value;
    if (program == "videos") return stack_.apps.videos_gb_s.value;
    if (program == "music") return stack_.apps.music_gb_s.value;
    if (program == "shopping") return stack_.apps.shopping_gb_s.value;
    throw Error(fmt::format("Nothing is known of '{}' beside shadowAttn.", program));
  }

  double kernel_s(const char* model, ShadowSystem system, int n_prompt) {
    return runs_.kernel({.model = model, .system = system, .n_prompt = n_prompt}).seconds;
  }
  double request_s(const ShadowRun& run, const Dataset& data) {
    return runs_.request(run).request_s(data.n_output);
  }
  double request_s(const char* model, ShadowSystem system, const Dataset& data) {
    return request_s({.model = model, .system = system, .n_prompt = data.n_prompt}, data);
  }
  double planning_ms() {
    const ShadowResult& result =
        runs_.request({.model = kSmall, .n_prompt = dataset(given_, kOctopus).n_prompt});
    return 1e-3 * result.planning.us / static_cast<double>(result.planning.n_plans);
  }

  // Adds the orderings of Figures 10 and 11.
  void add_gain_orders() {
    for (const ModelName& model : kShadowModels) {
      for (const int n : given_.counts(kKernelLengths)) {
        add_orders(fmt::format("kernel of {} tokens, {}", n, model.published),
                   [&](ShadowSystem system) { return kernel_s(model.known, system, n); });
      }
      for (const Dataset& data : datasets_) {
        add_orders(fmt::format("{}, {}", data.name, model.published),
                   [&](ShadowSystem system) { return request_s(model.known, system, data); });
      }
    }
  }

  template <typename Seconds>
  void add_orders(const std::string& what, const Seconds& seconds) {
    const double sparse = seconds(ShadowSystem::kSparse);
    rows_.add_ordering(fmt::format("{}: C/G-Sparse is faster than C/G-Full", what),
                       sparse < seconds(ShadowSystem::kFull));
    rows_.add_ordering(fmt::format("{}: C/G-Block-Sparse is faster than C/G-Sparse", what),
                       seconds(ShadowSystem::kBlocks) < sparse);
    for (const ShadowSystem system :
         {ShadowSystem::kFull, ShadowSystem::kSparse, ShadowSystem::kBlocks, ShadowSystem::kNpu}) {
      rows_.add_ordering(fmt::format("{}: shadowAttn is faster than {}", what, system_name(system)),
                         seconds(ShadowSystem::kShadow) < seconds(system));
    }
  }

  // Adds the orderings of Figure 12.
  void add_native_orders() {
    for (const ModelName& model : kShadowModels) {
      for (const Dataset& data : datasets_) {
        const double ours = request_s(model.known, ShadowSystem::kShadow, data);
        const ShadowRun cores = {.model = model.known,
                                 .system = ShadowSystem::kFull,
                                 .n_prompt = data.n_prompt,
                                 .cores = kFourCores};
        rows_.add_ordering(
            fmt::format("{}, {}: shadowAttn with one core is faster than full attention on four "
                        "cores or on the GPU",
                        data.name, model.published),
            ours < request_s(cores, data) ||
                ours < request_s(model.known, ShadowSystem::kGpu, data));
      }
    }
  }

  // Adds the orderings of Table 7.
  void add_older_phone_orders() {
    for (const char* name : {kArxivSum, kOctopus, kDroidCall}) {
      const Dataset data = dataset(given_, name);
      const auto gain = [&](const char* phone) {
        ShadowRun run = {.model = kSmall,
                         .system = ShadowSystem::kFull,
                         .n_prompt = data.n_prompt,
                         .phone = phone};
        const double full = request_s(run, data);
        run.system = ShadowSystem::kShadow;
        return full / request_s(run, data);
      };
      rows_.add_ordering(
          fmt::format("{}: less is gained on the 8 Gen 2 than on the 8 Gen 3", data.name),
          gain(kOlderPhone) < gain("8gen3"));
    }
  }

  // Adds the orderings that section 5.2 and Figures 13, 15 and 16 state in words.
  void add_parts_orders() {
    const Dataset octopus = dataset(given_, kOctopus);
    const auto seconds = [&](const ShadowRun& run) { return request_s(run, octopus); };
    const ShadowRun ours = {.model = kQwen, .n_prompt = octopus.n_prompt};
    ShadowRun run = ours;
    run.stage = schedule::HeadStage::kInTurn;
    rows_.add_ordering("without its pipeline shadowAttn is slower", seconds(ours) < seconds(run));
    std::vector<double> ours_s;
    for (const char* cores : {"small=1", kOneMiddle, "prime=1"}) {
      run = ours;
      run.cores = cores;
      ours_s.push_back(seconds(run));
      run.system = ShadowSystem::kFull;
      rows_.add_ordering(fmt::format("{}: shadowAttn is faster than C/G-Full", cores),
                         ours_s.back() < seconds(run));
    }
    rows_.add_ordering("shadowAttn is faster on a middle core than on a small one",
                       ours_s[1] < ours_s[0]);
    rows_.add_ordering("shadowAttn is faster on the prime core than on a middle one",
                       ours_s[2] < ours_s[1]);
  }

  const plan::Stack& stack_;
  Given given_;
  std::vector<Dataset> datasets_;
  ShadowRuns runs_;
  TestRows rows_;
  Figures figures_;
};

// Names the groups whose means the sensitivities tell.
constexpr const char* kKernels = "kernels, one middle core";
constexpr const char* kRequests = "requests, one middle core";

constexpr std::string_view kOpenConstants[] = {"cpu.vector_gflops", "npu.int8_tops",
                                               "attention.select_share", "attention.softmax_share"};

}  // namespace

TestReport simulate_shadowattn(const PhoneFolder& folder,
                               const std::vector<plan::ConstantChoice>& constants) {
  return ShadowReproduction(folder, constants).run();
}

std::vector<ShadowSensitivity> sensitivities_of_shadowattn(const PhoneFolder& folder,
                                                           TestReport* report) {
  plan::Stack stack = folder.stacks.at(kPaperName);
  std::vector<ShadowSensitivity> all;
  for (const plan::Field& field : stack.fields()) {
    if (std::find(std::begin(kOpenConstants), std::end(kOpenConstants), field.name) ==
        std::end(kOpenConstants)) {
      continue;
    }
    if (!field.constant->range) {
      throw Error(fmt::format("{}/stacks: no published row fixes '{}', so that it needs a range.",
                              folder.path, field.name));
    }
    for (const double value : {field.constant->range->first, field.constant->range->second}) {
      const TestReport tried = simulate_shadowattn(folder, {{field.name, value}});
      const auto mean = [&](const char* group) {
        const auto at = std::find_if(tried.rows.begin(), tried.rows.end(), [&](const TestRow& row) {
          return row.base.group == group && row.base.value->name == "mean";
        });
        if (at == tried.rows.end() || !at->base.simulated) {
          throw Error(fmt::format("{}/simulated/{}.json: the group '{}' has no row 'mean'.",
                                  folder.path, kPaperName, group));
        }
        return *at->base.simulated;
      };
      if (report != nullptr) report->widen(tried);
      all.push_back({fmt::format("{} = {:.4g}", field.name, value), tried.median_error(),
                     mean(kKernels), mean(kRequests), tried.count_orderings()});
    }
  }
  return all;
}

std::vector<AblationRow> ablation_of_shadowattn(const PhoneFolder& folder) {
  const Dataset octopus = dataset(Given(folder.path, kPaperName), kOctopus);
  ShadowRuns runs(folder.path);
  std::vector<AblationRow> rows;
  const auto add = [&](const char* what, const ShadowRun& run) {
    const ShadowResult& result = runs.request(run);
    rows.push_back({what, result.request_s(octopus.n_output), result.prefill.joules});
  };
  ShadowRun run = {.model = kQwen, .n_prompt = octopus.n_prompt};
  add("all of shadowAttn", run);
  run.stage = schedule::HeadStage::kFused;
  add("heads in the order of their buckets", run);
  run.stage = schedule::HeadStage::kOverlap;
  add("each head launched by itself", run);
  run.stage = schedule::HeadStage::kInTurn;
  add("no pipeline: heads in turn", run);
  run.n_buckets = 1;
  add("one pair of scales", run);
  run.has_equal_shares = true;
  add("equal shares of heads", run);
  run = {.model = kQwen, .system = ShadowSystem::kNpu, .n_prompt = octopus.n_prompt};
  add("not sparse: full attention on the NPU", run);
  return rows;
}

std::vector<KernelRow> kernels_of_shadowattn(const PhoneFolder& folder) {
  const int n_tokens = Given(folder.path, kPaperName).counts(kKernelLengths).front();
  ShadowRuns runs(folder.path);
  std::vector<KernelRow> rows;
  for (size_t m = 0; m < std::size(kShadowModels); ++m) {
    const plan::PublishedRow* const energy = plan::find_row(folder.published, kEnergyRows[m]);
    const double full = energy != nullptr ? plan::number_of(*energy, kEnergyValues[0]) : 0.0;
    if (!(full > 0.0)) {
      throw Error(fmt::format("{}/published has no row '{}' with an energy above 0.", folder.path,
                              kEnergyRows[m]));
    }
    for (size_t i = 0; i < std::size(kShadowSystems); ++i) {
      const KernelResult& result = runs.kernel({.model = kShadowModels[m].known,
                                                .system = kShadowSystems[i],
                                                .n_prompt = n_tokens,
                                                .phone = kOlderPhone});
      rows.push_back({kShadowModels[m].published, kShadowSystems[i], result,
                      plan::number_of(*energy, kEnergyValues[i]) / full});
    }
  }
  return rows;
}

TimelineTitle trace_head_pipeline(const PhoneFolder& folder, Trace* trace) {
  constexpr int kTokens = 2048;
  const ShadowRuns runs(folder.path);
  // Only the tasks of the last chunk are kept.
  std::vector<TraceEvent> last;
  for (const TraceEvent& event : runs.first_block({.model = kSmall, .n_prompt = kTokens})) {
    if (std::string_view(event.name) == "qkv") last.clear();
    if (event.block == 0) last.push_back(event);
  }
  TROIKA_ASSERT(!last.empty());
  const double begin_us = last.front().start_us;
  std::map<std::string_view, int> n_of_kind;
  for (TraceEvent event : last) {
    event.start_us -= begin_us;
    event.end_us -= begin_us;
    event.block = ++n_of_kind[event.name];
    trace->add(event);
  }
  return {.what = kSmall,
          .how = "Virtual phone 8gen3 with shadowAttn on one middle core; time is modelled",
          .about = fmt::format("attention of the last {} of {} tokens in one block", runs.chunk(),
                               kTokens),
          .numbers = "launches and heads, in their order"};
}

}  // namespace troika::papers
