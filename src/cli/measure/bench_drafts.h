// Holds the parts of troika bench that are about drafts.
#pragma once

#include "cli/flags/engine_flags.h"
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

// Measures what the flags ask for and prints it.
void bench_drafts(const EngineFlags& engine_flags, const DraftBenchFlags& flags, int depth,
                  int repetitions, int n_pairs, bool is_json);

}  // namespace troika::cli
