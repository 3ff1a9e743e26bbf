// Measures beside another engine's benchmark, in alternation.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/progress.h"
#include "engine/session.h"

namespace troika::cli {

struct CompareOptions {
  std::string command;       // "llama-bench" with options of its own, as one types it in a shell
  std::vector<int> prefill;  // prompt lengths
  int decode_tokens = 0;
  int depth = 0;  // tokens in the context before decoding
  int n_pairs = 10;
};

struct ComparedRow {
  std::string what;
  double ours = 0.0;  // tokens per second: medians
  double peers = 0.0;
  double ratio = 0.0;  // median of the pairs' ratios; their lowest and highest
  double lowest = 0.0;
  double highest = 0.0;
};

// The checker believes that moving JSON can throw.
struct Comparison {  // NOLINT(bugprone-exception-escape)
  std::string command;
  int n_pairs = 0;
  nlohmann::ordered_json peer;  // what it tells of its build and the machine
  std::vector<ComparedRow> rows;
};

// Throws UsageError for a command with options that `compare` adds itself.
void check_peer_command(const std::string& command);

// The peer gets -m, -t, -p, -n, -d, -r 1 and -o json. Throws Error where it is missing, fails, or
// prints something else than its results.
Comparison compare(engine::Session& session, const CompareOptions& options,
                   const ProgressFunction& progress);

// What a peer printed: tokens per second of the tests with so many prompt and generated tokens.
// Throws Error with `command` in it.
double peer_rate(const nlohmann::json& results, const std::string& command, int n_prompt,
                 int n_generated);

}  // namespace troika::cli
