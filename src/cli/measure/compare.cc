#include "cli/measure/compare.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>
#include <sstream>

#include "base/error.h"
#include "base/median.h"
#include "measure/measure.h"
#include "plan/json_fields.h"

namespace troika::cli {
namespace {

using nlohmann::json;

constexpr size_t kMostBytes = 16u << 20;  // limits what a peer may print

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// Returns the standard output of a command. What it says on standard error is dropped.
std::string output_of(const std::string& command) {
  FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) throw Error(fmt::format("No process for '{}' could be started.", command));
  std::string text;
  char buffer[4096];
  for (size_t n = 0; (n = fread(buffer, 1, sizeof(buffer), pipe)) > 0;) {
    if (text.size() < kMostBytes) text.append(buffer, n);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
    throw Error(
        fmt::format("There is no such program: '{}'. Name the peer's benchmark as you "
                    "would call it in a shell, with its path.",
                    command));
  }
  if (status != 0) {
    throw Error(fmt::format(
        "The peer failed{}. Run it by hand to see why; it was called as \"{}\".",
        WIFEXITED(status) ? fmt::format(" with status {}", WEXITSTATUS(status)) : std::string(),
        command));
  }
  return text;
}

json results_of(const std::string& command) {
  const std::string advice = fmt::format(
      "It must understand '-o json', as llama-bench does; it was called as \"{}\".", command);
  const json results = plan::parse_json(output_of(command), "What the peer printed", advice);
  if (!results.is_array() || results.empty()) {
    throw Error("The peer printed no list of results in JSON. " + advice);
  }
  return results;
}

// One thing that both sides measure.
struct Test {
  int n_prompt, n_generated, depth;
  std::vector<double> ours{}, peers{};

  std::string command(const CompareOptions& options, const engine::Engine& engine) const {
    return fmt::format("{} -m {} -t {} -p {} -n {} -d {} -r 1 -o json", options.command,
                       quoted(engine.file().path()), engine.plan().n_threads(), n_prompt,
                       n_generated, depth);
  }
  double our_rate(engine::Session& session) const {
    if (n_prompt > 0) return n_prompt / measure::prefill_seconds(session, n_prompt);
    return measure::decode_run(session, std::max(depth, 1), n_generated).tokens_per_s;
  }
  ComparedRow row() const {
    std::vector<double> ratios;
    for (size_t i = 0; i < ours.size(); ++i) ratios.push_back(ours[i] / peers[i]);
    const std::string what = n_prompt > 0 ? fmt::format("prefill {}", n_prompt)
                             : depth > 0  ? fmt::format("decode {} after {}", n_generated, depth)
                                          : fmt::format("decode {}", n_generated);
    return {what,
            median(ours),
            median(peers),
            median(ratios),
            *std::min_element(ratios.begin(), ratios.end()),
            *std::max_element(ratios.begin(), ratios.end())};
  }
};

// Returns what tells a reader which peer this was.
nlohmann::ordered_json build_information(const json& result) {
  nlohmann::ordered_json peer;
  for (const char* key : {"build_commit", "build_number", "backends", "cpu_info", "model_type",
                          "n_threads", "type_k", "type_v", "flash_attn", "use_mmap"}) {
    if (result.contains(key)) peer[key] = result[key];
  }
  return peer;
}

}  // namespace

void check_peer_command(const std::string& command) {
  static const std::set<std::string> kOurs = {
      "-m", "--model",   "-t", "--threads",     "-p", "--n-prompt", "-n", "--n-gen",
      "-d", "--n-depth", "-r", "--repetitions", "-o", "--output"};
  std::istringstream words(command);
  for (std::string word; words >> word;) {
    if (kOurs.count(word) == 0) continue;
    throw UsageError(fmt::format(
        "--compare '{}': leave {} out. The model, -t, -p, -n, -d, -r and -o are given to the peer "
        "so that both sides measure the same; it would take them twice as a list.",
        command, word));
  }
}

double peer_rate(const json& results, const std::string& command, int n_prompt, int n_generated) {
  for (const json& result : results) {
    if (!result.is_object()) continue;
    const auto number = [&](const char* key) {
      const auto found = result.find(key);
      return found != result.end() && found->is_number() ? found->get<double>() : -1.0;
    };
    if (number("n_prompt") != n_prompt || number("n_gen") != n_generated) continue;
    const double rate = number("avg_ts");
    if (rate > 0) return rate;
  }
  throw Error(
      fmt::format("The peer's results hold no rate ('avg_ts') for {} prompt and {} "
                  "generated tokens; it was called as \"{}\".",
                  n_prompt, n_generated, command));
}

Comparison compare(engine::Session& session, const CompareOptions& options,
                   const ProgressFunction& progress) {
  std::vector<Test> tests;
  for (const int n : options.prefill) tests.push_back({n, 0, 0});
  if (options.decode_tokens > 0) tests.push_back({0, options.decode_tokens, options.depth});
  Comparison comparison;
  comparison.command = options.command;
  comparison.n_pairs = options.n_pairs;
  const uint64_t n_runs = tests.size() * static_cast<size_t>(options.n_pairs);
  uint64_t n_done = 0;
  // What the context has no room for is told before the peer runs, and the first pair is no colder
  // than the others.
  measure::check_context(session, {options.prefill, options.decode_tokens, options.depth, 1});
  measure::warm_up(session);
  for (int pair = 0; pair < options.n_pairs; ++pair) {
    for (Test& test : tests) {
      const std::string command = test.command(options, session.engine());
      const json results = results_of(command);
      test.peers.push_back(peer_rate(results, command, test.n_prompt, test.n_generated));
      test.ours.push_back(test.our_rate(session));
      if (comparison.peer.is_null()) comparison.peer = build_information(results.front());
      if (progress) progress(++n_done, n_runs);
    }
  }
  session.truncate(0);
  for (const Test& test : tests) comparison.rows.push_back(test.row());
  return comparison;
}

}  // namespace troika::cli
