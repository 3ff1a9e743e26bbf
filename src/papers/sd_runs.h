// The systems that sd.npu compares, on virtual phones: what a request costs with each (D1, D3, D6).
// How many draft tokens are accepted is not simulated: the published figure stands in the task.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "papers/phone_passes.h"

namespace troika::papers {

// Every system runs prompts on the NPU (section 4.1).
enum class SdSystem {
  kNpu,       // steps too, with one graph for both
  kNpuGraph,  // with a graph for each: +G
  kCpu,       // steps on the CPU
  kNpuSam,    // +SD
  kNpuGraphSam,
  kCpuSam,
  kNpuEagle,
  kCpuEagle,
  kOurs,  // sd.npu
};

struct SdTask {
  std::string name;  // "summary"
  int n_prompt = 0;
  int n_output = 0;
  double sam_accepted = 1.0;   // tokens per verification, the one behind the draft counted
  double ours_accepted = 1.0;  // with calibration and reuse
};

// Per verification; 1 without drafts.
double accepted_tokens(SdSystem system, const SdTask& task);

struct SdRequest {
  PhoneCost prompt;  // with the calibration, where there is one
  PhoneCost steps;   // of the whole answer
  // How much longer it would take if the calibration stood in a row behind the prompt, which is the
  // other way to read the paper (K16).
  double more_if_behind_s = 0.0;

  double seconds() const { return prompt.seconds + steps.seconds; }
  double joules() const { return prompt.joules + steps.joules; }
  double steps_percent() const { return 100.0 * steps.seconds / seconds(); }
};

// The paper's graph for both phases, if there is only one ("32" is printed, which does not compute:
// the middle of 96 to 128, K15), and those for prompts and for steps (sections 2.3 and 3.2).
inline constexpr int kSdOneShape = 112, kSdPromptShape = 256, kSdStepShape = 32;
// Rows of a verification: drafts of SAM are shorter than 8 in 75 % of cases (section 1), which for
// lengths that fall off geometrically is a mean of 5.3, and the root. They are not rounded up to a
// graph: what the passes of this stack take was measured over the length of the draft (Figure 6).
inline constexpr int kSdRows = 6;
inline constexpr double kEagleAccepted = 5.5;  // df013
inline constexpr int kEagleDrafts = 5;         // a chain that can be accepted so far

class SdRuns {
 public:
  // `phones` is their folder.
  explicit SdRuns(std::string phones);
  ~SdRuns();

  // Throws Error for what is not known.
  SdRequest request(const std::string& model, const std::string& phone, SdSystem system,
                    const SdTask& task);
  // `now`: the layout that all blocks have when the prompt begins; behind an answer the step's.
  SwitchedPrompt switched_prompt(const std::string& model, const std::string& phone, int n_prompt,
                                 schedule::Layout now = schedule::Layout::kPrompt,
                                 Trace* trace = nullptr);
  // All blocks one after the other, without computing meanwhile.
  double whole_load_s(const std::string& model, const std::string& phone);
  PhoneCost prompt(const std::string& model, const std::string& phone, int n_prompt, int shape);
  const engine::Engine& engine(const std::string& model, const std::string& phone);

 private:
  struct Machine;
  Machine& machine(const std::string& model, const std::string& phone, bool is_cpu);
  PhoneCost pass(const std::string& model, const std::string& phone, bool is_cpu, int n_rows,
                 int n_past, bool is_draft_model);
  // Work of the CPU that is not part of a pass.
  PhoneCost cpu_ms(const std::string& model, const std::string& phone, bool is_cpu, double ms);
  // What calibration adds to a prompt. The large cores share it, chunk by chunk, in the time in
  // which they have nothing else to do during the chunks behind; the rest follows the prompt (K16).
  PhoneCost calibration(const std::string& model, const std::string& phone,
                        const SwitchedPrompt& prompt, int n_prompt);

  std::string phones_;
  std::map<std::tuple<std::string, std::string, bool>, std::unique_ptr<Machine>> machines_;
  std::map<std::tuple<std::string, std::string, bool, int, int, bool>, PhoneCost> passes_;
  std::map<std::tuple<std::string, std::string, int, int>, PhoneCost> prompts_;
  std::map<std::tuple<std::string, std::string, int, schedule::Layout>, SwitchedPrompt> switched_;
};

}  // namespace troika::papers
