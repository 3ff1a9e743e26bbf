// Adds --trace and --timeline, which record what ran where and when.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/options.h"
#include "engine/engine.h"
#include "engine/generate.h"

namespace troika::cli {

// Holds --trace and --timeline, which record what ran where and when.
class TraceFlags {
 public:
  void add_to(Command& command);
  bool is_wanted() const { return !trace_path_.empty() || !timeline_path_.empty(); }
  // Refuses files that cannot be written or are among those that are read, before a model is
  // loaded. Throws Error.
  void check(const std::vector<std::string>& read) const;
  // Returns who sees the passes. They are recorded if a file was asked for.
  engine::Watch watch(const engine::Engine& engine);
  // Says of one answer what a trace alone does not tell: a short prompt looks like a step.
  void count(const engine::Generated& answer);
  // Writes the files and prints how busy each lane was to standard error.
  void end(engine::Engine& engine);

 private:
  std::string trace_path_;
  std::string timeline_path_;
  std::unique_ptr<Trace> trace_;
  std::string passes_;  // what the timeline shows; empty: what the trace tells
};

}  // namespace troika::cli
