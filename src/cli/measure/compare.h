// Measures this program and another engine's benchmark in alternation.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/progress.h"
#include "engine/session.h"

namespace troika::cli {

struct CompareOptions {
  std::string command;       // "llama-bench" with options of its own, as one types it in a shell
  std::vector<int> prefill;  // the prompts' lengths
  int decode_tokens = 0;
  int depth = 0;  // counts tokens in the context before decoding
  int n_pairs = 10;
};

struct ComparedRow {
  std::string what;
  double ours = 0.0;   // a median, in tokens per second
  double peers = 0.0;  // a median, too
  double ratio = 0.0;  // the median of the pairs' ratios, whose lowest and highest follow
  double lowest = 0.0;
  double highest = 0.0;
};

// Clang-tidy believes that moving JSON can throw.
struct Comparison {  // NOLINT(bugprone-exception-escape)
  std::string command;
  int n_pairs = 0;
  nlohmann::ordered_json peer;  // what the peer tells of its build and the machine
  std::vector<ComparedRow> rows;
};

// Throws UsageError for a command with options that `compare` adds itself.
void check_peer_command(const std::string& command);

// Gives the peer -m, -t, -p, -n, -d, -r 1 and -o json. Throws Error where the context has no room
// for a test, before the peer runs, and where the peer is missing, fails, or prints something else
// than its results.
Comparison compare(engine::Session& session, const CompareOptions& options,
                   const ProgressFunction& progress);

// Returns the tokens per second of the tests with n_prompt tokens of a prompt and n_generated of an
// answer, from what a peer printed. Throws Error with `command` in it.
double peer_rate(const nlohmann::json& results, const std::string& command, int n_prompt,
                 int n_generated);

}  // namespace troika::cli
