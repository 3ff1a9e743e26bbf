// Declares the commands of the program, and the groups in which --help lists them and their
// options.
#pragma once

#include "cli/options.h"

namespace troika::cli {

// Each function adds a command to the program; the command's callback runs it.
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

// These are the groups in which 'troika --help' lists the commands.
inline constexpr const char* kUseGroup = "Use a model";
inline constexpr const char* kTuneGroup = "Make it fast here";
inline constexpr const char* kMeasureGroup = "Measure it";
inline constexpr const char* kMakeGroup = "Make model files";
inline constexpr const char* kPapersGroup = "Reproduce the papers";
// These are the groups of options in the --help of a command, in this order behind its own.
inline constexpr const char* kSamplingGroup = "Sampling (how the next token is chosen)";
inline constexpr const char* kAnswerGroup =
    "What an answer may be (JSON, a grammar, a regular expression)";
inline constexpr const char* kDraftGroup = "Drafts (tokens guessed ahead and verified together)";
inline constexpr const char* kMachineGroup = "This machine (threads, memory, precision, kernels)";
inline constexpr const char* kPromptGroup = "Prompts (precision, attention, chunks)";
inline constexpr const char* kNeuronGroup =
    "Neurons (models with ReLU: compute and read only those that fire)";
inline constexpr const char* kLaneGroup = "Lanes (cores, GPUs and NPUs that work at the same time)";
inline constexpr const char* kTraceGroup = "Measuring (which task ran when)";
inline constexpr const char* kPhoneGroup =
    "Virtual phones (their processors and times are modelled)";

}  // namespace troika::cli
