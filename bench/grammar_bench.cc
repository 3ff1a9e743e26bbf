// Measures JSON schemas as people write them: how many are read, how many instances are judged as
// they should be, and what compiling and masks take over a real vocabulary.
//
//   troika_grammar_bench VOCABULARY.gguf [--verbose] FILE.json...
//
// A file is a case of MaskBench: {"schema": ..., "tests": [{"valid": true, "data": ...}]}.
// Instances are written compactly, with keys in the order in which the file has them. Prints one
// JSON object.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "gguf/file.h"
#include "grammar/grammar.h"
#include "text/tokenizer.h"
#include "text/vocabulary.h"

namespace {

using namespace troika;
using nlohmann::ordered_json;

// --verbose tells of masks that take longer, and of first masks that take ten times as long.
constexpr double kLongUs = 3000.0;

struct Times {
  std::vector<double> us;
  ordered_json json() {
    if (us.empty()) return nullptr;
    std::sort(us.begin(), us.end());
    const auto at = [&](double share) {
      return us[std::min(us.size() - 1,
                         static_cast<size_t>(share * static_cast<double>(us.size())))];
    };
    double sum = 0.0;
    for (const double one : us) sum += one;
    return {{"n", us.size()},     {"mean_us", sum / static_cast<double>(us.size())},
            {"p50_us", at(0.5)},  {"p90_us", at(0.9)},
            {"p99_us", at(0.99)}, {"longest_us", us.back()}};
  }
};

struct Score {
  int n_schemas = 0, n_right = 0;
  int n_valid = 0, n_invalid = 0, n_valid_refused = 0, n_invalid_accepted = 0, n_limited = 0;
  int n_refused = 0;
  std::map<std::string, int> refusals;  // counts schemas that are not read, by what they ask for
  Times first_mask, masks;
};

class Bench {
 public:
  Bench(const std::string& vocabulary, bool is_verbose)
      : tokenizer_(text::make_tokenizer(text::read_vocabulary(gguf::File::open(vocabulary)))),
        tokens_(std::make_shared<grammar::TokenTrie>(*tokenizer_)),
        is_verbose_(is_verbose) {}

  void take(const std::string& path) {
    std::ifstream in(path);
    const ordered_json file = ordered_json::parse(in, nullptr, /*allow_exceptions=*/false);
    if (!file.is_object() || !file.contains("schema")) {
      throw Error(fmt::format("{}: no case of MaskBench.", path));
    }
    ++score_.n_schemas;
    const double start_us = clock_.now_us();
    std::shared_ptr<grammar::Grammar> grammar;
    try {
      grammar = grammar::compile(file["schema"].dump(), grammar::Format::kJsonSchema, tokens_);
      grammar::Matcher matcher(grammar);
      matcher.allowed(&set_);
    } catch (const Error& error) {
      ++score_.n_refused;
      ++score_.refusals[kind_of(error.what())];
      if (is_verbose_) fmt::print(stderr, "{}: refused: {}\n", path, error.what());
      return;
    }
    score_.first_mask.us.push_back(clock_.now_us() - start_us);
    if (is_verbose_ && score_.first_mask.us.back() > 10 * kLongUs) {
      fmt::print(stderr, "{}: {:.0f} us before the first mask\n", path,
                 score_.first_mask.us.back());
    }
    bool is_right = true;
    for (const ordered_json& test : file["tests"]) {
      is_right &= judge(path, grammar, test["data"].dump(), test["valid"].get<bool>());
    }
    score_.n_right += is_right;
  }

  ordered_json json() {
    ordered_json refusals = ordered_json::object();
    std::vector<std::pair<int, std::string>> order;
    for (const auto& [what, n] : score_.refusals) order.emplace_back(-n, what);
    std::sort(order.begin(), order.end());
    for (const auto& [n, what] : order) refusals[what] = -n;
    return {{"tokens", tokenizer_->n_tokens()},  {"schemas", score_.n_schemas},
            {"right", score_.n_right},           {"refused", score_.n_refused},
            {"valid", score_.n_valid},           {"valid_refused", score_.n_valid_refused},
            {"invalid", score_.n_invalid},       {"invalid_accepted", score_.n_invalid_accepted},
            {"beyond_limits", score_.n_limited}, {"first_mask", score_.first_mask.json()},
            {"masks", score_.masks.json()},      {"refused_by", refusals}};
  }

 private:
  // What is between the place and the reason differs; the reason's first words tell enough.
  static std::string kind_of(const std::string& error) {
    const size_t begin = error.find(": ");
    return error.substr(begin == std::string::npos ? 0 : begin + 2, 60);
  }

  bool judge(const std::string& path, const std::shared_ptr<grammar::Grammar>& grammar,
             const std::string& instance, bool is_valid) {
    grammar::Matcher matcher(grammar);
    bool is_accepted = true;
    try {
      for (const text::Token token : tokenizer_->encode(instance)) {
        const double start_us = clock_.now_us();
        matcher.allowed(&set_);
        is_accepted = set_.has(token) && matcher.advance(token);
        score_.masks.us.push_back(clock_.now_us() - start_us);
        if (is_verbose_ && score_.masks.us.back() > kLongUs) {
          fmt::print(stderr, "{}: a mask of {:.0f} us\n", path, score_.masks.us.back());
        }
        if (!is_accepted) break;
      }
      is_accepted = is_accepted && matcher.may_end();
    } catch (const Error& error) {
      ++score_.n_limited;
      if (is_verbose_) fmt::print(stderr, "{}: {}\n", path, error.what());
      return false;
    }
    (is_valid ? score_.n_valid : score_.n_invalid)++;
    if (is_accepted == is_valid) return true;
    (is_valid ? score_.n_valid_refused : score_.n_invalid_accepted)++;
    if (is_verbose_) {
      fmt::print(stderr, "{}: {} instance {}\n", path,
                 is_valid ? "refused a valid" : "accepted an invalid", instance.substr(0, 200));
    }
    return false;
  }

  RealClock clock_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::shared_ptr<grammar::TokenTrie> tokens_;
  bool is_verbose_;
  grammar::TokenSet set_;
  Score score_;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    std::vector<std::string> files(argv + 1, argv + argc);
    const bool is_verbose = std::erase(files, "--verbose") > 0;
    if (files.size() < 2) {
      throw UsageError("Usage: troika_grammar_bench VOCABULARY.gguf [--verbose] FILE.json...");
    }
    Bench bench(files.front(), is_verbose);
    files.erase(files.begin());
    for (const std::string& file : files) bench.take(file);
    fmt::print("{}\n", bench.json().dump(2));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
