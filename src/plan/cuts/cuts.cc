#include "plan/cuts/cuts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "base/error.h"
#include "plan/plan.h"

namespace troika::plan {
namespace {

constexpr std::string_view kAttention = "attention";

std::optional<int> number_from(std::string_view text) {
  int value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size() || text.empty() ||
      value < 0) {
    return std::nullopt;
  }
  return value;
}

// Takes the text up to a letter away, with the letter, and returns it: all of the text where the
// letter is not there.
std::string_view take_until(std::string_view* text, char letter) {
  const size_t at = text->find(letter);
  const std::string_view head = text->substr(0, at);
  *text = at == std::string_view::npos ? std::string_view() : text->substr(at + 1);
  return head;
}

std::optional<Shares> shares_from(std::string_view text) {
  Shares shares;
  if (text.ends_with(',')) return std::nullopt;
  while (!text.empty() || shares.empty()) {
    std::string_view one = take_until(&text, ',');
    const std::optional<int> lane = number_from(take_until(&one, ':'));
    const std::optional<int> n = number_from(one);
    if (!lane || !n) return std::nullopt;
    shares.push_back({*lane, *n});
  }
  return shares;
}

// Reads "2", "2-64", "prompt" or "step", or a phase with numbers behind it: "prompt:2-64".
bool take_which(std::string_view text, TensorCut* cut) {
  for (const Phase phase : {Phase::kStep, Phase::kPrompt}) {
    const std::string_view name = phase_name(phase);
    if (!text.starts_with(name)) continue;
    cut->phase = phase;
    text.remove_prefix(name.size());
    if (text.empty()) return true;
    if (text.front() != ':') return false;
    text.remove_prefix(1);
    break;
  }
  const bool is_range = text.find('-') != std::string_view::npos;
  const std::optional<int> least = number_from(take_until(&text, '-'));
  const std::optional<int> most = is_range ? number_from(text) : TensorCut::kAnyTokens;
  if (!least || !most) return false;
  cut->least_tokens = *least;
  cut->most_tokens = *most;
  return true;
}

bool take_how(std::string_view text, TensorCut* cut) {
  if (text.ends_with('+')) return false;
  while (!text.empty()) {
    std::string_view one = take_until(&text, '+');
    const std::string_view kind = take_until(&one, ':');
    Shares* const shares = kind == "rows"     ? &cut->rows
                           : kind == "tokens" ? &cut->tokens
                           : kind == "heads"  ? &cut->heads
                                              : nullptr;
    const std::optional<Shares> read = shares_from(one);
    if (shares == nullptr || !shares->empty() || !read) return false;
    *shares = *read;
  }
  return true;
}

// Says whether a lane may be named again among shares.
enum class Again { kForbidden, kAllowed };

std::optional<CutProblem> problem_of_shares(const char* field, const Shares& shares, size_t n_lanes,
                                            int most, Again again) {
  if (shares.size() > kMostShares) {
    return CutProblem{field, fmt::format("holds more than {} parts", kMostShares)};
  }
  int64_t sum = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    const auto [lane, n] = shares[i];
    if (lane < 0 || static_cast<size_t>(lane) >= n_lanes) {
      return CutProblem{field,
                        fmt::format("names lane {}, but the lanes are 0 to {}", lane, n_lanes - 1)};
    }
    sum += n;
    if (n < 1 || sum > most) {
      return CutProblem{field, fmt::format("must hold numbers that add up to {} at most, each of "
                                           "them 1 or more",
                                           most)};
    }
    const auto is_same = [&, lane = lane](const LaneShare& other) { return other.lane == lane; };
    if (again == Again::kForbidden &&
        std::any_of(shares.begin(), shares.begin() + static_cast<int>(i), is_same)) {
      return CutProblem{field, fmt::format("names lane {} twice", lane)};
    }
  }
  return std::nullopt;
}

}  // namespace

bool TensorCut::holds_for(std::string_view of_subgraph, Shape shape) const {
  const bool has_shape = shape.n_rows >= least_tokens && shape.n_rows <= most_tokens &&
                         (!phase || *phase == shape.phase);
  return has_shape && (subgraph.empty() ? of_subgraph != kAttention : subgraph == of_subgraph);
}

std::vector<Span> divide(int n, const Shares& shares, int granule) {
  TROIKA_ASSERT(!shares.empty() && granule >= 1);
  int64_t sum = 0;
  for (const LaneShare& share : shares) sum += share.n;
  std::vector<Span> spans;
  int64_t before = 0;
  int begin = 0;
  for (const LaneShare& share : shares) {
    before += share.n;
    // Ends are rounded to the nearest granule.
    const int64_t granules = (2 * before * n + sum * granule) / (2 * sum * granule);
    const int end = before == sum ? n : static_cast<int>(std::min<int64_t>(granules * granule, n));
    spans.push_back({begin, end});
    begin = end;
  }
  return spans;
}

std::optional<CutProblem> problem_of(const TensorCut& cut, size_t n_lanes) {
  if (!is_subgraph_name(cut.subgraph) || cut.subgraph == "shadow") {
    return CutProblem{"subgraph", fmt::format("is '{}', which cannot be cut; known are {}",
                                              cut.subgraph, subgraph_names())};
  }
  if (cut.least_tokens > cut.most_tokens) {
    return CutProblem{"most_tokens", "is less than least_tokens, so that it holds for nothing"};
  }
  const bool is_open = cut.most_tokens == TensorCut::kAnyTokens;
  if (const int most = is_open ? cut.least_tokens : cut.most_tokens; most > kMostSharedTokens) {
    return CutProblem{is_open ? "least_tokens" : "most_tokens",
                      fmt::format("is {}, and {} is the most", most, kMostSharedTokens)};
  }
  const bool is_attention = cut.subgraph == kAttention;
  if (is_attention != !cut.heads.empty() ||
      (is_attention && (!cut.rows.empty() || !cut.tokens.empty() || !cut.op.empty()))) {
    return CutProblem{"heads", "are what attention is divided by, and nothing else is"};
  }
  if (cut.rows.empty() && cut.tokens.empty() && cut.heads.empty()) {
    return CutProblem{"rows", "and 'tokens' are missing; give one of them"};
  }
  auto problem = problem_of_shares("rows", cut.rows, n_lanes, kMostSharedRows, Again::kForbidden);
  if (!problem) {
    problem = problem_of_shares("tokens", cut.tokens, n_lanes, kMostSharedTokens, Again::kAllowed);
  }
  if (!problem) {
    problem = problem_of_shares("heads", cut.heads, n_lanes, kMostSharedRows, Again::kForbidden);
  }
  return problem;
}

std::optional<CutProblem> problem_of(const LengthCut& length, size_t n_lanes) {
  if (length.tokens.empty()) return CutProblem{"parts", "must hold at least one part"};
  if (auto problem =
          problem_of_shares("parts", length.tokens, n_lanes, kMostSharedTokens, Again::kAllowed)) {
    return problem;
  }
  int64_t sum = 0;
  for (const LaneShare& part : length.tokens) sum += part.n;
  if (sum == length.n_tokens) return std::nullopt;
  return CutProblem{"parts",
                    fmt::format("add up to {} tokens, but n_tokens is {}", sum, length.n_tokens)};
}

TensorCut cut_from_text(std::string_view text) {
  const std::string_view whole = text;
  TensorCut cut;
  const bool has_equals = text.find('=') != std::string_view::npos;
  std::string_view left = take_until(&text, '=');
  std::string_view name = take_until(&left, '@');
  const bool has_which = left.data() != nullptr;
  cut.subgraph = std::string(take_until(&name, '.'));
  cut.op = std::string(name);
  const bool is_read = has_equals && (!has_which || take_which(left, &cut)) && take_how(text, &cut);
  // The lanes are checked later, where their number is known.
  const auto problem = is_read ? problem_of(cut, SIZE_MAX) : CutProblem{"", "is not understood"};
  if (!problem) return cut;
  throw UsageError(fmt::format(
      "‹cut› '{}': {}{}{}. Write SUBGRAPH=HOW, SUBGRAPH.OP=HOW, SUBGRAPH@TOKENS=HOW, "
      "SUBGRAPH@FROM-TO=HOW, SUBGRAPH@prompt=HOW or SUBGRAPH@step:FROM-TO=HOW, where HOW is "
      "rows:LANE:N,LANE:N or "
      "tokens:LANE:N,LANE:N, or both with a + between them, and for attention heads:LANE:N,LANE:N; "
      "as in ffn.ffn_down@2=rows:0:60,1:40.",
      whole, problem->field, *problem->field == '\0' ? "" : " ", problem->what));
}

std::string shares_text(const Shares& shares) {
  std::string text;
  for (const LaneShare& share : shares) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", share.lane, share.n);
  }
  return text;
}

std::string cut_text(const TensorCut& cut) {
  std::string text = cut.subgraph;
  if (!cut.op.empty()) text += "." + cut.op;
  std::string which = cut.phase ? phase_name(*cut.phase) : "";
  const char* const between = which.empty() ? "" : ":";
  if (cut.most_tokens != TensorCut::kAnyTokens) {
    which += fmt::format("{}{}-{}", between, cut.least_tokens, cut.most_tokens);
  } else if (cut.least_tokens > 0) {
    which += fmt::format("{}{}", between, cut.least_tokens);
  }
  if (!which.empty()) text += "@" + which;
  const char* before = "=";
  for (const auto& [kind, shares] : {std::pair("rows", &cut.rows), std::pair("tokens", &cut.tokens),
                                     std::pair("heads", &cut.heads)}) {
    if (shares->empty()) continue;
    text += fmt::format("{}{}:{}", before, kind, shares_text(*shares));
    before = "+";
  }
  return text;
}

LengthCut length_from_text(std::string_view text) {
  LengthCut length;
  const std::optional<Shares> parts = shares_from(text);
  if (parts) length.tokens = *parts;
  int64_t sum = 0;
  for (const LaneShare& part : length.tokens) sum += part.n;
  length.n_tokens = static_cast<int>(std::min<int64_t>(sum, INT_MAX));
  const auto problem = parts ? problem_of(length, SIZE_MAX) : CutProblem{"", "is not understood"};
  if (!problem) return length;
  throw UsageError(fmt::format(
      "‹length› '{}': {}{}{}. Write LANE:TOKENS,LANE:TOKENS as in 0:512,0:32,1:56, which is for "
      "prompts of 600 tokens.",
      text, problem->field, *problem->field == '\0' ? "" : " ", problem->what));
}

void check_cuts(const Plan& plan) {
  const auto check = [](const std::string& option, const std::optional<CutProblem>& problem) {
    if (!problem) return;
    throw UsageError(fmt::format("{}: {} {}.", option, problem->field, problem->what));
  };
  for (const TensorCut& cut : plan.cuts) {
    check(fmt::format("‹cut› {}", cut_text(cut)), problem_of(cut, plan.lanes.size()));
  }
  if (plan.lengths.size() > kMostShapes) {
    throw UsageError(
        fmt::format("‹length›: {} lengths are too many, because executables are built for each; "
                    "name at most {}.",
                    plan.lengths.size(), kMostShapes));
  }
  for (const LengthCut& length : plan.lengths) {
    check(fmt::format("‹length› {}", shares_text(length.tokens)),
          problem_of(length, plan.lanes.size()));
  }
  for (size_t i = 1; i < plan.lengths.size(); ++i) {
    if (plan.lengths[i - 1].n_tokens < plan.lengths[i].n_tokens) continue;
    throw UsageError(fmt::format("‹length› {}: there are two of {} tokens.",
                                 shares_text(plan.lengths[i].tokens), plan.lengths[i].n_tokens));
  }
}

}  // namespace troika::plan
