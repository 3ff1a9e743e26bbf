// Serves troika eval --cag: what drafts give on tasks that come with their context.
#pragma once

#include "cli/use/drafting.h"
#include "measure/evaluate_drafts.h"

namespace troika::cli {

struct ContextTaskFlags {
  std::string file;
  std::vector<std::string> drafts;  // name settings; empty: all that the paper compares
  // The coverages of the prompt for which a curve is measured; empty: settings are measured
  // instead.
  std::vector<int> coverages;
  int width = 16;
  int most_tokens = 64;
  std::string chat_template;  // takes the place of the model's own; empty: does not

  void add_to(Command& command);
};

// Reads the first tasks of a JSONL file, or with 0 all. Throws Error that names file and line.
std::vector<measure::ContextTask> read_context_tasks(const std::string& path, int most);

void eval_drafts(const ContextTaskFlags& flags, const prepare::Options& options,
                 engine::Session& session, int most_tasks, bool is_json);

}  // namespace troika::cli
