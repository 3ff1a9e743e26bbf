// Adds --trace and --timeline, which record what ran where and when.
#pragma once

#include <memory>
#include <string>

#include "cli/options.h"
#include "engine/engine.h"

namespace troika::cli {

// Holds --trace and --timeline, which record what ran where and when.
class TraceFlags {
 public:
  void add_to(Command& command);
  // Returns who sees the passes. They are recorded if a file was asked for.
  engine::Watch watch(const engine::Engine& engine);
  // Writes the files and prints how busy each lane was to standard error.
  void end(engine::Engine& engine);

 private:
  std::string trace_path_;
  std::string timeline_path_;
  std::unique_ptr<Trace> trace_;
};

}  // namespace troika::cli
