// Says how tensors are divided between lanes (HeteroLLM 4.1), as plain data.
#pragma once

#include <climits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/shape.h"

namespace troika::plan {

// Says how much of a whole a lane gets, in parts of any size.
struct LaneShare {
  int lane = 0;
  int n = 1;

  bool operator==(const LaneShare&) const = default;
};
using Shares = std::vector<LaneShare>;

inline constexpr int kMostShares = 64;
inline constexpr int kMostSharedTokens = 1 << 20;
// Counts of rows are no more than this, so that their sums are small numbers.
inline constexpr int kMostSharedRows = 1 << 24;

// Says how an op is divided in executables of some shapes (H3, H4, H6, H7). The shares of a list
// get parts of the whole in the order in which they stand.
struct TensorCut {
  std::string subgraph;  // empty: every subgraph but attention
  // One op, as "ffn_down". Empty: the whole subgraph, or each of its products.
  std::string op;
  int least_tokens = 0;  // the cut holds for executables of at least this many tokens
  int most_tokens = kAnyTokens;
  std::optional<Phase> phase = std::nullopt;  // none: the cut holds for both phases
  // Divides the weight of a product, in proportion to these numbers and in granules of 16 rows.
  // Numbers that add up to the weight's rows are counts of rows. A single lane runs the whole
  // product.
  Shares rows = {};
  // Divides the executable's tokens; the last lane has the rest. Where `rows` is there too,
  // `tokens` divides the part of its first lane alone, and each other lane of `tokens` has its
  // tokens for all rows.
  Shares tokens = {};
  // Divides attention by heads of keys and values, in proportion to these numbers.
  Shares heads = {};
  // Says that the lanes may compute in different numerics classes, so that results depend on the
  // ratio. A cut between such lanes is refused unless it says so.
  bool mixes_classes = false;

  bool holds_for(std::string_view of_subgraph, Shape shape) const;
  bool operator==(const TensorCut&) const = default;

  static constexpr int kAnyTokens = INT_MAX;
};

// A part of a prompt that has n_tokens tokens goes through an executable of its own, whose static
// subgraphs are divided by tokens (H4, H5). A part that is shorter takes it too, as long as the
// last share has some tokens. 600 may be 512 on a lane, 32 on the same lane and 56 on another.
struct LengthCut {
  int n_tokens = 0;
  Shares tokens;  // the tokens of each share, in their order; they add up to n_tokens

  // Returns the fewest tokens with which the last share has any.
  int least_tokens() const { return n_tokens - tokens.back().n + 1; }
  bool operator==(const LengthCut&) const = default;
};

// The range of a length or a product that one share gets.
struct Span {
  int begin = 0;
  int end = 0;

  int size() const { return end - begin; }
  bool operator==(const Span&) const = default;
};
// Divides n in proportion to the shares, at multiples of the granule; the last share has the rest.
// REQUIRES: shares.
std::vector<Span> divide(int n, const Shares& shares, int granule);

// What is wrong with a cut or a length by itself, as the end of a sentence: the field, and what
// about it.
struct CutProblem {
  const char* field = "";
  std::string what;
};
// Both return nothing where all is well in a plan of `n_lanes` lanes.
std::optional<CutProblem> problem_of(const TensorCut& cut, size_t n_lanes);
std::optional<CutProblem> problem_of(const LengthCut& length, size_t n_lanes);

// Reads "ffn.ffn_down@2=rows:0:60,1:40", which is SUBGRAPH.OP@WHICH=HOW, where .OP and @WHICH may
// be left out. WHICH is a least number of tokens, or a range as in 2-64, or a phase. HOW is a kind
// (rows, tokens or heads) and its LANE:N, or rows and tokens with a + between them. Throws
// UsageError.
TensorCut cut_from_text(std::string_view text);
std::string cut_text(const TensorCut& cut);  // the text that cut_from_text reads
// Reads "0:512,0:32,1:56". Throws UsageError.
LengthCut length_from_text(std::string_view text);
std::string shares_text(const Shares& shares);

}  // namespace troika::plan
