// What the commands share: options, output, errors.
#pragma once

#include <exception>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes_text.h"
#include "cli/options.h"
#include "engine/engine.h"
#include "engine/sampler.h"

namespace troika::cli {

// Each command adds itself to the program; its callback runs it.
void add_run(Command& app);
void add_chat(Command& app);
void add_serve(Command& app);
void add_bench(Command& app);
void add_eval(Command& app);
void add_inspect(Command& app);
void add_tokenize(Command& app);
void add_quantize(Command& app);
void add_convert(Command& app);
void add_synth(Command& app);
void add_plan(Command& app);
void add_tune(Command& app);
void add_sparsity(Command& app);
void add_neurons(Command& app);
void add_reproduce(Command& app);
void add_profile(Command& app);
void add_cache(Command& app);
void add_pull(Command& app);

// The groups in which 'troika --help' lists the commands.
inline constexpr const char* kUseGroup = "Use a model";
inline constexpr const char* kTuneGroup = "Make it fast here";
inline constexpr const char* kMeasureGroup = "Measure it";
inline constexpr const char* kMakeGroup = "Make model files";
inline constexpr const char* kPapersGroup = "Reproduce the papers";
// Groups of options that more than one part of the program adds to.
inline constexpr const char* kMachineGroup = "This machine";
inline constexpr const char* kDraftGroup = "Drafts";

// What --cut says for the cuts of least time, on a phone.
inline constexpr std::string_view kCutAuto = "auto";

// Options of every command that computes with a model.
struct EngineFlags {
  prepare::Options options;
  // What --lanes, --place, --lane-memory and --lane-busy mean depends on --machine.
  std::string lanes;
  std::vector<std::string> placements;
  std::vector<std::string> cuts;
  std::vector<std::string> lengths;
  std::vector<std::string> lane_limits;
  std::vector<std::string> lane_caps;
  std::vector<std::string> constants;

  void add_to(Command& command);
  // For commands that run as 'troika tune' found best, unless --no-plan forbids it.
  void add_kept_plan(Command& command);
  bool uses_kept_plan() const { return uses_kept_plan_; }
  // Throws UsageError for lanes that are not known and switches that cannot do anything.
  prepare::Options checked() const;
  // Whether the command line has this option: "--order".
  bool is_given(const std::string& name) const;

 private:
  const Command* command_ = nullptr;  // to which they were added
  bool uses_kept_plan_ = false;
};

// How prompts, keys and values are computed: the options that several commands have. The variables
// must live as long as the command.
Option* add_prefill(Command& command, std::optional<plan::Prefill>& prefill,
                    const std::string& help);
Option* add_activations(Command& command, plan::Activations& activations);
Option* add_kv(Command& command, tensor::Type& type);
// Adds --lanes, the cores of this machine.
Option* add_cores(Command& command, std::vector<plan::HostLane>& lanes, const std::string& help);

// Loads with a note on standard error about the context that was chosen.
std::unique_ptr<engine::Engine> load(const EngineFlags& flags);

// --trace and --timeline: what ran where and when.
class TraceFlags {
 public:
  void add_to(Command& command);
  // Who is to see the passes, so that they are recorded if a file was asked for.
  engine::Watch watch(const engine::Engine& engine);
  // Writes the files and prints how busy each lane was to standard error.
  void end(engine::Engine& engine);

 private:
  std::string trace_path_;
  std::string timeline_path_;
  std::unique_ptr<Trace> trace_;
};

struct SamplerFlags {
  engine::SamplerOptions options;
  std::vector<std::string> biases;  // TOKEN=BIAS
  Option* seed = nullptr;

  void add_to(Command& command);
  // Draws a seed where none was given.
  engine::SamplerOptions checked() const;
  // Throws UsageError for a bias of a token that the model does not have.
  void check_tokens(const engine::Engine& engine) const;

 private:
  void note_idle(const Command& command) const;
};

// "bf16 (auto: ...), 12.3 MB packed in 0.4 s": how prompts are computed, and why so.
std::string prefill_text(const engine::Engine& engine);

// "attention sparse: 20 % of the positions from 1024 on, by head".
std::string attention_text(const plan::PromptAttention& attention);

// What an error says, with this program's options: --context.
std::string message_of(const std::exception& error);
// Puts options into any text in which they are marked, see base/option_names.h.
std::string with_flags(const std::string& text);

// The whole of a file, or of standard input for "-". Throws Error.
std::string read_text(const std::string& path);

// Writes to standard output; throws Error where that fails (a full disk, a closed pipe).
void print(const std::string& text);

// The same for a JSON document and a line end. Bytes that are no UTF-8, as file names may have
// them, become U+FFFD.
void print_json(const nlohmann::ordered_json& json);

// Writes to standard error. Where that fails, nobody could be told: the work goes on.
void note(const std::string& text);

}  // namespace troika::cli
