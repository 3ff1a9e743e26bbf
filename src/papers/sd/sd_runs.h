// Runs the systems that sd.npu compares on virtual phones: what a request costs with each (D1, D3,
// D6). Each is an engine and a session as everywhere, whose time is modelled. How many draft tokens
// are accepted is not simulated: the task has the published figure.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "engine/engine.h"
#include "schedule/layout_switch.h"

namespace troika::papers {

// Says where drafts come from.
enum class SdDrafts {
  kNone,
  kRetrieved,   // finds drafts in the text: lookup (PLD), a suffix automaton (SAM)
  kCalibrated,  // finds drafts so too, with what the prompt's logits say, and reuses rejected ones
  kModel,       // takes drafts of a smaller model: EAGLE, as the paper simulates it
};

// One system. Every system runs prompts on the NPU (section 4.1).
struct SdSystem {
  bool is_on_cpu = false;  // says where steps run
  // The NPU has a graph for prompts and one for steps: the paper's +G.
  bool has_two_graphs = false;
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
  // Counts tokens of a verification, with the one behind the draft.
  double retrieved_accepted = 1.0;
  double calibrated_accepted = 1.0;

  auto operator<=>(const SdTask&) const = default;
};

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
  PhoneCost prompt;  // the cost until steps may begin
  PhoneCost steps;   // the cost of the whole answer
  int n_passes = 0;  // counts the answer's passes
  // The time that the request would take on top if the calibration ran behind the prompt, which is
  // the other way to read the paper (K16).
  double more_if_behind_s = 0.0;

  double seconds() const { return prompt.seconds + steps.seconds; }
  double joules() const { return prompt.joules + steps.joules; }
  double steps_percent() const { return 100.0 * steps.seconds / seconds(); }
};

// A prompt during which graphs changed.
struct SwitchedPrompt {
  double prompt_s = 0.0;    // the time to its end
  double finished_s = 0.0;  // the time until all blocks have the graphs of steps too
  int n_switched = 0;       // counts blocks that had the graphs of steps when the prompt ended
};

// What runs are given: phones/simulated/sd.npu.json says where each number is from.
struct SdGiven {
  int n_prompt = 0, n_output = 0;  // the tokens of a request whose lengths are not printed
  // The tokens of the graph for both phases, if there is only one, and of those for prompts and for
  // steps (sections 2.3 and 3.2).
  int one_shape = 0, prompt_shape = 0, step_shape = 0;
  int n_rows = 0;  // the rows of a verification
  double accepted_from_model = 0.0;
};
// `phones` is the folder of the virtual phones. Throws Error.
SdGiven read_sd_given(const std::string& phones);

class SdRuns {
 public:
  // `phones` is the folder of the virtual phones. Throws Error.
  explicit SdRuns(std::string phones);
  ~SdRuns();

  const SdGiven& given() const { return given_; }
  // Returns the tokens of a verification; 1 without drafts.
  double accepted_tokens(const SdSystem& system, const SdTask& task) const;
  // Throws Error for a model or a phone that is not known.
  SdRequest request(const std::string& model, const std::string& phone, const SdSystem& system,
                    const SdTask& task);
  // `now` is the layout that all blocks have when the prompt begins; behind an answer it is that of
  // steps.
  SwitchedPrompt switched_prompt(const std::string& model, const std::string& phone, int n_prompt,
                                 schedule::Layout now = schedule::Layout::kPrompt,
                                 Trace* trace = nullptr);
  // Returns the time to load all blocks one after the other, without computing meanwhile.
  double whole_load_s(const std::string& model, const std::string& phone);
  // Runs chunks of `shape` tokens, one of the three that are given, without a change of graphs.
  PhoneCost prompt(const std::string& model, const std::string& phone, int n_prompt, int shape);
  // Returns an engine with graphs that change.
  const engine::Engine& engine(const std::string& model, const std::string& phone);

 private:
  // Says which software runs a model.
  struct Software {
    int chunk = 0;
    bool is_on_cpu = false;  // says where steps run
    bool has_switch = false;
    bool is_draft_model = false;  // says that the model is one block and the head
    auto operator<=>(const Software&) const = default;
  };
  Software with_switch() const {
    return {.chunk = given_.prompt_shape, .is_on_cpu = false, .has_switch = true};
  }
  struct Machine;
  Machine& machine(const std::string& model, const std::string& phone, const Software& software);
  prepare::Options options_of(const std::string& model, const std::string& phone,
                              const Software& software) const;
  void check_accepted(double n_tokens) const;
  SdRequest simulate(const std::string& model, const std::string& phone, const SdSystem& system,
                     const SdTask& task);

  std::string phones_;
  SdGiven given_;
  std::map<std::tuple<std::string, std::string, Software>, std::unique_ptr<Machine>> machines_;
  std::map<std::tuple<std::string, std::string, SdSystem, SdTask>, SdRequest> requests_;
};

}  // namespace troika::papers
