// The systems that sd.npu compares, on virtual phones: what a request costs with each (D1, D3, D6).
// Each is an engine and a session as everywhere, whose time is modelled. How many draft tokens are
// accepted is not simulated: the published figure stands in the task.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "engine/engine.h"
#include "schedule/layout_switch.h"

namespace troika::papers {

// Where drafts come from.
enum class SdDrafts {
  kNone,
  kRetrieved,   // found in the text: lookup (PLD), a suffix automaton (SAM)
  kCalibrated,  // the same, with what the prompt's logits say, and rejected drafts reused
  kModel,       // a smaller model: EAGLE, as the paper simulates it
};

// Every system runs prompts on the NPU (section 4.1).
struct SdSystem {
  bool is_on_cpu = false;       // its steps
  bool has_two_graphs = false;  // of the NPU, for prompts and for steps: +G
  SdDrafts drafts = SdDrafts::kNone;

  auto operator<=>(const SdSystem&) const = default;

  static const SdSystem kNpu, kNpuGraph, kNpuSam, kNpuGraphSam, kNpuEagle, kCpu, kCpuSam, kCpuEagle,
      kOurs;
};
inline constexpr SdSystem SdSystem::kNpu{};
inline constexpr SdSystem SdSystem::kNpuGraph{.has_two_graphs = true};
inline constexpr SdSystem SdSystem::kNpuSam{.drafts = SdDrafts::kRetrieved};
inline constexpr SdSystem SdSystem::kNpuGraphSam{.has_two_graphs = true,
                                                 .drafts = SdDrafts::kRetrieved};
inline constexpr SdSystem SdSystem::kNpuEagle{.drafts = SdDrafts::kModel};
inline constexpr SdSystem SdSystem::kCpu{.is_on_cpu = true};
inline constexpr SdSystem SdSystem::kCpuSam{.is_on_cpu = true, .drafts = SdDrafts::kRetrieved};
inline constexpr SdSystem SdSystem::kCpuEagle{.is_on_cpu = true, .drafts = SdDrafts::kModel};
inline constexpr SdSystem SdSystem::kOurs{.has_two_graphs = true, .drafts = SdDrafts::kCalibrated};

struct SdTask {
  int n_prompt = 0;
  int n_output = 0;
  double retrieved_accepted = 1.0;  // tokens of a verification, the one behind the draft counted
  double calibrated_accepted = 1.0;

  auto operator<=>(const SdTask&) const = default;
};

// Tokens of a verification; 1 without drafts.
double accepted_tokens(const SdSystem& system, const SdTask& task);

struct PhoneCost {
  double seconds = 0.0;
  double joules = 0.0;

  PhoneCost& operator+=(const PhoneCost& other) {
    seconds += other.seconds;
    joules += other.joules;
    return *this;
  }
};

struct SdRequest {
  PhoneCost prompt;  // until steps may begin
  PhoneCost steps;   // the whole answer
  int n_passes = 0;  // of it
  // How much longer it would take if the calibration stood in a row behind the prompt, which is the
  // other way to read the paper (K16).
  double more_if_behind_s = 0.0;

  double seconds() const { return prompt.seconds + steps.seconds; }
  double joules() const { return prompt.joules + steps.joules; }
  double steps_percent() const { return 100.0 * steps.seconds / seconds(); }
};

// A prompt during which graphs changed.
struct SwitchedPrompt {
  double prompt_s = 0.0;    // up to its end
  double finished_s = 0.0;  // until all blocks have the graphs of steps too
  int n_switched = 0;       // of them when the prompt ended
};

// The paper's graph for both phases, if there is only one ("32" is printed, which does not compute:
// the middle of 96 to 128, K15), and those for prompts and for steps (sections 2.3 and 3.2).
inline constexpr int kSdOneShape = 112, kSdPromptShape = 256, kSdStepShape = 32;
// Rows of a verification: drafts of SAM are shorter than 8 in 75 % of cases (section 1), which for
// lengths that fall off geometrically is a mean of 5.3, and the root. They are not rounded up to a
// graph: what the passes of this stack take was measured over the length of the draft (Figure 6).
inline constexpr int kSdRows = 6;
inline constexpr double kEagleAccepted = 5.5;  // df013

class SdRuns {
 public:
  // `phones` is their folder.
  explicit SdRuns(std::string phones);
  ~SdRuns();

  // Throws Error for what is not known.
  SdRequest request(const std::string& model, const std::string& phone, const SdSystem& system,
                    const SdTask& task);
  // `now`: the layout that all blocks have when the prompt begins; behind an answer the step's.
  SwitchedPrompt switched_prompt(const std::string& model, const std::string& phone, int n_prompt,
                                 schedule::Layout now = schedule::Layout::kPrompt,
                                 Trace* trace = nullptr);
  // All blocks one after the other, without computing meanwhile.
  double whole_load_s(const std::string& model, const std::string& phone);
  // Chunks of so many tokens, one of the three lengths above, without a change of graphs.
  PhoneCost prompt(const std::string& model, const std::string& phone, int n_prompt, int shape);
  // With graphs that change.
  const engine::Engine& engine(const std::string& model, const std::string& phone);

 private:
  // Which software runs a model.
  struct Software {
    int chunk = kSdPromptShape;
    bool is_on_cpu = false;  // steps
    bool has_switch = false;
    bool is_draft_model = false;  // one block and the head
    auto operator<=>(const Software&) const = default;
  };
  struct Machine;
  Machine& machine(const std::string& model, const std::string& phone, const Software& software);
  prepare::Options options_of(const std::string& model, const std::string& phone,
                              const Software& software) const;
  SdRequest simulate(const std::string& model, const std::string& phone, const SdSystem& system,
                     const SdTask& task);

  std::string phones_;
  std::map<std::tuple<std::string, std::string, Software>, std::unique_ptr<Machine>> machines_;
  std::map<std::tuple<std::string, std::string, SdSystem, SdTask>, SdRequest> requests_;
};

}  // namespace troika::papers
