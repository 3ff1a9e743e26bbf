#include "papers/sd/sd_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <span>
#include <tuple>

#include "base/error.h"
#include "base/units.h"
#include "draft/drafter.h"
#include "engine/session.h"
#include "lanes/virtual/virtual_phone.h"
#include "machines/phone_prompts.h"
#include "papers/given.h"
#include "papers/sd/scripted_drafts.h"

namespace troika::papers {
namespace {

constexpr int kMostTokens = 4096;

// Lets all positions of a prompt calibrate drafts.
class Everything : public engine::PromptObserver {
 public:
  bool wants(int) const override { return true; }
  void see(int, std::span<const float>) override {}
  void took(double) override {}
};

engine::SamplerOptions greedy() {
  engine::SamplerOptions options;
  options.temperature = 0.0f;
  return options;
}

}  // namespace

SdGiven read_sd_given(const std::string& phones) {
  const Given given(phones, "sd.npu");
  return {.n_prompt = given.count("tokens of a prompt"),
          .n_output = given.count("tokens of an answer"),
          .one_shape = given.count("tokens of the graph for both"),
          .prompt_shape = given.count("tokens of the graph for prompts"),
          .step_shape = given.count("tokens of the graph for steps"),
          .n_rows = given.count("rows of a verification"),
          .accepted_from_model = given.number("tokens accepted from a draft model")};
}

double SdRuns::accepted_tokens(const SdSystem& system, const SdTask& task) const {
  switch (system.drafts) {
    case SdDrafts::kNone:
      break;
    case SdDrafts::kRetrieved:
      return task.retrieved_accepted;
    case SdDrafts::kCalibrated:
      return task.calibrated_accepted;
    case SdDrafts::kModel:
      return given_.accepted_from_model;
  }
  return 1.0;
}

struct SdRuns::Machine {
  explicit Machine(const prepare::Options& options) : engine(options), session(engine) {}

  const lanes::VirtualPhone& phone() const { return *engine.phone().machine; }
  lanes::VirtualPhone& phone() { return static_cast<lanes::VirtualPhone&>(engine.machine()); }
  double now_s() const { return phone().clock().now_us() / kUsPerS; }
  template <typename Run>
  PhoneCost timed(const Run& run) {
    const lanes::PhoneUse start = phone().use();
    run();
    const lanes::PhoneUse end = phone().use();
    return {(end.now_us - start.now_us) / kUsPerS, phone().energy_j(start, end)};
  }
  // Reads a prompt. Which tokens it has makes no difference to the time.
  void read(int n_tokens, engine::PromptObserver* observer = nullptr) {
    session.truncate(0);
    session.prefill(std::vector<cache::Token>(static_cast<size_t>(n_tokens), 0), nullptr, observer);
  }
  void work(double us) {
    phone().add_background(us);
    phone().finish_background();
  }

  // Makes the draft model's next guesses, behind a text of n_known tokens. Its cache holds those of
  // its guesses that were right, but not the token that the large model put behind them.
  void guess(size_t n_known, int n_drafts) {
    session.truncate(static_cast<int>(n_known) - 1);
    for (int i = 0; i < n_drafts; ++i) {
      session.append(0);
      (void)session.logits();
    }
  }

  engine::Engine engine;
  engine::Session session;
};

namespace {

std::unique_ptr<draft::Drafter> scripted_drafter(int n_rows, double n_accepted, draft::Token right,
                                                 const std::function<void(int)>& draft,
                                                 std::span<const draft::Token> history) {
  std::vector<std::unique_ptr<draft::Source>> sources;
  sources.push_back(std::make_unique<ScriptedDrafts>(n_rows - 1, n_accepted, right, draft));
  auto drafter = std::make_unique<draft::Drafter>(
      std::move(sources), draft::DrafterOptions{.most_width = n_rows, .is_fixed = true});
  drafter->begin(history);
  return drafter;
}

}  // namespace

SdRuns::SdRuns(std::string phones) : phones_(std::move(phones)), given_(read_sd_given(phones_)) {}
SdRuns::~SdRuns() = default;

// Sets up the software. Floats are computed on the CPU (footnote 2 of the paper). Whole passes were
// measured for the stack of steps, so its rates contain handovers. Chunks of the graph for prompts
// run as [75] runs them, which is llm.npu (section 3.1), with the kernels of its backend (section
// 4.1).
prepare::Options SdRuns::options_of(const std::string& model, const std::string& phone,
                                    const Software& software) const {
  prepare::Options options;
  options.phone.file = phones_ + "/" + phone + ".json";
  options.phone.stack = "sd.npu";
  if (software.chunk == given_.prompt_shape) options.phone.prompt_stack = "sd.npu.prompts";
  options.model.file = model;
  options.model.type = "q8_0";
  if (software.is_draft_model) options.model.n_blocks = 1;
  options.phone.has_values = false;
  options.phone.processors = {lanes::Processor::kCpu, lanes::Processor::kNpu};
  options.phone.small_shapes = {1, given_.n_rows};
  if (software.has_switch) options.phone.small_shapes.push_back(given_.step_shape);
  options.lanes.splits.at_norms = true;
  for (const char* products : {"qkv", "out", "ffn", "head"}) {
    plan::Placement on_npu{products, 0, 1};
    if (software.is_on_cpu) on_npu.phase = plan::Phase::kPrompt;
    options.lanes.placements.push_back(on_npu);
  }
  options.lanes.placements.push_back({"", 0, 0});
  options.prompts.chunk = software.chunk;
  options.prompts.order = plan::Order::kInOrder;
  if (software.has_switch) options.memory.layouts = prepare::Layouts::kSwitch;
  options.memory.context = kMostTokens;
  return options;
}

SdRuns::Machine& SdRuns::machine(const std::string& model, const std::string& phone,
                                 const Software& software) {
  std::unique_ptr<Machine>& known = machines_[{model, phone, software}];
  if (known == nullptr) known = std::make_unique<Machine>(options_of(model, phone, software));
  return *known;
}

const engine::Engine& SdRuns::engine(const std::string& model, const std::string& phone) {
  return machine(model, phone, with_switch()).engine;
}

PhoneCost SdRuns::prompt(const std::string& model, const std::string& phone, int n_prompt,
                         int shape) {
  Machine& with = machine(model, phone, {.chunk = shape});
  return with.timed([&] { with.read(n_prompt); });
}

SwitchedPrompt SdRuns::switched_prompt(const std::string& model, const std::string& phone,
                                       int n_prompt, schedule::Layout now, Trace* trace) {
  Machine& with = machine(model, phone, with_switch());
  machines::PhonePrompts& prompts = *with.engine.phone().prompts;
  prompts.assume(now);
  with.session.watch({.trace = trace});
  SwitchedPrompt result;
  const double start_s = with.now_s();
  with.read(n_prompt);
  result.prompt_s = with.now_s() - start_s;
  result.n_switched = prompts.n_switched();
  prompts.finish({trace, with.phone().lanes().size()});
  result.finished_s = with.now_s() - start_s;
  with.session.watch({});
  return result;
}

double SdRuns::whole_load_s(const std::string& model, const std::string& phone) {
  const Machine& with = machine(model, phone, with_switch());
  return with.engine.phone().prompts->block_load_us() * with.engine.blueprint().n_layers / kUsPerS;
}

SdRequest SdRuns::request(const std::string& model, const std::string& phone,
                          const SdSystem& system, const SdTask& task) {
  // The key has only what the system looks at, so that tasks which differ in nothing else are one.
  SdTask seen{task.n_prompt, task.n_output, 1.0, 1.0};
  if (system.drafts == SdDrafts::kRetrieved) seen.retrieved_accepted = task.retrieved_accepted;
  if (system.drafts == SdDrafts::kCalibrated) seen.calibrated_accepted = task.calibrated_accepted;
  const auto key = std::make_tuple(model, phone, system, seen);
  if (const auto at = requests_.find(key); at != requests_.end()) return at->second;
  return requests_.emplace(key, simulate(model, phone, system, seen)).first->second;
}

// Throws Error where a verification cannot accept so many tokens.
void SdRuns::check_accepted(double n_tokens) const {
  if (n_tokens >= 1.0 && n_tokens <= given_.n_rows) return;
  throw Error(fmt::format("{}: verifications of {} rows accept 1 to {} tokens, not {:g}.", phones_,
                          given_.n_rows, given_.n_rows, n_tokens));
}

SdRequest SdRuns::simulate(const std::string& model, const std::string& phone,
                           const SdSystem& system, const SdTask& task) {
  const bool has_long_chunks = system.is_on_cpu || system.has_two_graphs;
  const Software software{.chunk = has_long_chunks ? given_.prompt_shape : given_.one_shape,
                          .is_on_cpu = system.is_on_cpu,
                          .has_switch = system.has_two_graphs};
  Machine& with = machine(model, phone, software);
  machines::PhonePrompts& prompts = *with.engine.phone().prompts;
  prompts.assume(schedule::Layout::kPrompt);
  const bool is_calibrated = system.drafts == SdDrafts::kCalibrated;
  Everything everything;
  SdRequest request;
  double before_finish_s = 0.0;
  request.prompt = with.timed([&] {
    with.read(task.n_prompt, is_calibrated ? &everything : nullptr);
    before_finish_s = with.now_s();
    prompts.finish();
  });
  const plan::Stack& stack = with.phone().model().stack();
  if (is_calibrated) {
    const double left_s = with.now_s() - before_finish_s;
    request.more_if_behind_s =
        std::max(0.0, 1e-3 * stack.draft.calibrate_ms_per_token * task.n_prompt - left_s);
  }

  Machine* draft_model = nullptr;
  if (system.drafts == SdDrafts::kModel) {
    Software smaller = software;
    smaller.is_draft_model = true;
    draft_model = &machine(model, phone, smaller);
    request.prompt += draft_model->timed([&] { draft_model->read(task.n_prompt); });
  }
  const auto draft = [&](int n_drafts) {
    if (draft_model == nullptr) {
      with.work(kUsPerMs * stack.draft.step_ms);
      return;
    }
    const size_t n_known = with.session.history().size();
    request.steps += draft_model->timed([&] { draft_model->guess(n_known, n_drafts); });
  };
  engine::Sampler sampler(greedy());
  request.steps += with.timed([&] {
    const draft::Token right = with.session.next(sampler);
    std::unique_ptr<draft::Drafter> drafter;
    if (system.drafts != SdDrafts::kNone) {
      check_accepted(accepted_tokens(system, task));
      drafter = scripted_drafter(given_.n_rows, accepted_tokens(system, task), right, draft,
                                 with.session.history());
    }
    for (int n_left = task.n_output - 1; n_left > 0;) {
      n_left -= with.session.step(sampler, drafter.get(), n_left).n_tokens;
      ++request.n_passes;
    }
  });
  return request;
}

}  // namespace troika::papers
