// How tensors are divided between lanes (HeteroLLM 4.1), as plain data.
#pragma once

#include <climits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/shape.h"

namespace troika::plan {

// How much of a whole, in parts of any size, a lane gets.
struct LaneShare {
  int lane = 0;
  int n = 1;

  bool operator==(const LaneShare&) const = default;
};
using Shares = std::vector<LaneShare>;

inline constexpr int kMostShares = 64;
inline constexpr int kMostSharedTokens = 1 << 20;
// Counts of rows are no more than this, so that sums of them are small numbers.
inline constexpr int kMostSharedRows = 1 << 24;

// How an op is divided in executables of some shapes (H3, H4, H6, H7). Counts of a kind stand one
// behind the other in the order in which they are named.
struct TensorCut {
  std::string subgraph;  // empty: every one but attention
  std::string op;        // "ffn_down"; empty: the whole subgraph, or each of its products
  int least_tokens = 0;  // for executables of so many tokens
  int most_tokens = kAnyTokens;
  std::optional<Phase> phase = std::nullopt;  // none: of both
  // These divide the weight of a product, in proportion to these numbers and in granules of 16
  // rows, so that such numbers which add up to the rows are the rows. One lane alone: the whole
  // product is there.
  Shares rows = {};
  // These divide those of the executable; the last one has all behind it. Beside rows, these divide
  // the first of them alone, and each other lane has its tokens for all rows.
  Shares tokens = {};
  // These divide attention: heads of keys and values, in proportion to these numbers.
  Shares heads = {};
  // The lanes compute in different numerics classes, so that results depend on the ratio. A cut
  // between such lanes is refused unless it says so.
  bool mixes_classes = false;

  bool holds_for(std::string_view of_subgraph, Shape shape) const;
  bool operator==(const TensorCut&) const = default;

  static constexpr int kAnyTokens = INT_MAX;
};

// A part of a prompt of n_tokens tokens, or so few less that the last part has some, goes through
// an executable of its own, whose static subgraphs are divided by tokens (H4, H5): 600 = 512 on a
// lane, 32 on the same and 56 on another.
struct LengthParts {
  int n_tokens = 0;
  Shares parts;  // of the tokens, in their order; they add up to n_tokens

  // Fewer tokens would leave the last part without any.
  int least_tokens() const { return n_tokens - parts.back().n + 1; }
  bool operator==(const LengthParts&) const = default;
};

// A part of a length or of a product, from the first on.
struct Span {
  int begin = 0;
  int end = 0;

  int size() const { return end - begin; }
  bool operator==(const Span&) const = default;
};
// Divides n in proportion to the shares, at multiples of the granule; the last has the rest.
// REQUIRES: shares.
std::vector<Span> divide(int n, const Shares& shares, int granule);

// What is wrong with a cut or a length by itself, in a plan of so many lanes, as the end of a
// sentence: the field, and what about it. Nothing where all is well.
struct CutProblem {
  const char* field = "";
  std::string what;
};
std::optional<CutProblem> problem_of(const TensorCut& cut, size_t n_lanes);
std::optional<CutProblem> problem_of(const LengthParts& length, size_t n_lanes);

// "ffn.ffn_down@2=rows:0:60,1:40": SUBGRAPH.OP@WHICH=HOW, where .OP and @WHICH may be left out.
// WHICH is a least number of tokens, or a range as in 2-64, or a phase. HOW is a kind (rows, tokens
// or heads) and its LANE:N, or rows and tokens with a + between them. Throws UsageError.
TensorCut cut_from_text(std::string_view text);
std::string cut_text(const TensorCut& cut);  // such a text
// "0:512,0:32,1:56". Throws UsageError.
LengthParts length_from_text(std::string_view text);
std::string shares_text(const Shares& shares);

}  // namespace troika::plan
