// Holds the parts of troika bench that are about drafts.
#pragma once

#include "cli/flags/engine_flags.h"
#include "cli/flags/trace_flags.h"
#include "cli/use/drafting.h"

namespace troika::cli {

struct DraftBenchFlags {
  std::vector<int> widths;
  std::string prompt_file;
  std::string answer_file;
  DraftFlags draft;

  void add_to(Command& command);
  bool is_wanted() const { return !widths.empty() || !prompt_file.empty() || !answer_file.empty(); }
};

// What troika bench asks for besides, of rates and drafts alike.
struct DraftBenchRuns {
  int depth = 0;
  int repetitions = 3;
  int n_pairs = 10;
  bool is_json = false;
};

// Measures what the flags ask for and prints it. The trace gets all passes.
void bench_drafts(const EngineFlags& engine_flags, const DraftBenchFlags& flags,
                  const DraftBenchRuns& runs, TraceFlags* trace);

}  // namespace troika::cli
