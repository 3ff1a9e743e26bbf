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

// The groups in which 'troika --help' lists the commands.
inline constexpr const char* kUseGroup = "Use a model";
inline constexpr const char* kTuneGroup = "Make it fast here";
inline constexpr const char* kMeasureGroup = "Measure it";
inline constexpr const char* kMakeGroup = "Make model files";
inline constexpr const char* kPapersGroup = "Reproduce the papers";
// Groups of options that more than one part of the program adds to.
inline constexpr const char* kMachineGroup = "This machine";
inline constexpr const char* kDraftGroup = "Drafts";

}  // namespace troika::cli
