// Joins what the sources guess into one tree of the width that pays (D3), and learns from every
// verification what their guesses are worth and what each width costs.
#pragma once

#include <climits>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "draft/asking.h"
#include "draft/odds.h"
#include "draft/rules.h"
#include "draft/source.h"
#include "draft/width_costs.h"

namespace troika::draft {

// Limits the rows of one verification, the text's last token included: widths up to this share the
// numerics class of decoding.
inline constexpr int kMostWidth = 32;
// Limits the rows of a pass that several texts share. Costs are learned up to this width.
inline constexpr int kMostPassRows = 64;
// Memory is taken at once for no longer texts: what knows all substrings of a text has some 170
// bytes a token, and clears a part of them for each text. Longer ones take more as they grow,
// seldom and ever more at a time, and are known as well.
inline constexpr int kMostReservedText = 32768;

struct DrafterOptions {
  int most_width = kMostWidth;
  // If set, drafts always have the most width, whatever it costs: this is for measuring. Otherwise
  // the width is the one with the most expected tokens for its time, and 1 where no draft is better
  // than plain decoding. A source that takes a part of a pass is asked where that pays, and seldom
  // elsewhere.
  bool is_fixed = false;
  int n_vocab = INT_MAX;  // guesses of larger tokens are dropped
  int coverage = 0;  // the percentage of a prompt's positions whose logits `calibrate` gets (D2)
  // What passes took before, by their rows; empty: every drafter finds out by itself.
  std::vector<std::pair<int, double>> costs_ms = {};
  // Guesses that these rules forbid are dropped; null: no rules are known.
  std::shared_ptr<Rules> rules = nullptr;
  // Counts the tokens of text for which memory is taken at once, so that steps allocate nothing, up
  // to kMostReservedText.
  int most_text = 0;
  const Clock* clock = nullptr;  // has the time that guessing takes; null: this machine's own
};

struct Statistics {
  struct OfSource {
    std::string name;
    int64_t n_verified = 0;  // counts verified nodes that the source had guessed
    int64_t n_accepted = 0;
  };
  int64_t n_verifications = 0;  // counts passes, those without a draft too
  int64_t n_with_draft = 0;
  // Counts tokens that these passes gave; one token of each pass is the model's own.
  int64_t n_tokens = 0;
  int64_t n_verified = 0;
  int64_t n_accepted = 0;
  double draft_ms = 0.0;                    // finding, joining and learning take so long
  double pass_ms = 0.0;                     // verifying takes so long
  std::vector<int64_t> n_of_draft_nodes{};  // counts drafts by their size
  std::vector<int64_t> n_of_accepted{};     // counts verifications by accepted nodes
  std::vector<OfSource> sources{};

  double tokens_per_verification() const {
    return n_verifications > 0
               ? static_cast<double>(n_tokens) / static_cast<double>(n_verifications)
               : 0.0;
  }
};

// The other texts in a pass: their rows, and how many tokens they are expected to get from it.
struct Company {
  int n_rows = 0;
  double n_tokens = 0.0;
};

class Drafter {
 public:
  // REQUIRES: 1 <= most_width <= kMostWidth.
  explicit Drafter(std::vector<std::unique_ptr<Source>> sources,
                   const DrafterOptions& options = {});

  // Says which text is drafted for from now on. If it continues the text before, what is known of
  // that is kept; otherwise all is forgotten. Guesses that take long end soon when `cancel` is set.
  void begin(std::span<const Token> text, const std::atomic<bool>* cancel = nullptr);
  // Returns the percentage of a prompt's positions whose logits help, for `calibrate` after
  // `begin`.
  int coverage() const { return options_.coverage; }
  void calibrate(std::span<const LikelyNext> likely);
  // Returns a draft of what follows the text, with at most most_nodes nodes. It is empty where
  // plain decoding is better for all texts that share its pass, because a row that pays for one
  // text makes the others wait. Valid until the next call. REQUIRES: the text continues the text
  // before.
  const Tree& propose(std::span<const Token> text, int most_nodes, Company company = {});
  // Returns how many tokens the pass with the last draft should give, the model's own token
  // included.
  double expected_tokens() const { return expected_tokens_; }
  bool uses_predictions() const { return uses_predictions_; }
  // Is told what became of the last draft.
  void learn(const Verdict& verdict);
  // Is told what the draft's pass took; `width` counts the text's last token, too, and the rows of
  // other texts. It is 0 where the pass read a part of a prompt too, which says nothing about
  // steps.
  void measured(int width, double ms);

  const Statistics& statistics() const { return statistics_; }
  void clear_statistics();
  const WidthCosts& costs() const { return costs_; }

 private:
  struct Guess {
    int node;  // an index into joined_
    float path_chance;
  };
  class Stopwatch;
  double now_ms() const;
  void reserve();
  // Says whether it is weighed if a source is asked.
  bool is_weighed(size_t source) const {
    return sources_[source]->takes_passes() && !options_.is_fixed;
  }
  void ask(std::span<const Token> text, int most_nodes, double plain_ms);
  void follow(std::span<const Token> text);
  void join();
  int best_size(int most_nodes, Company company) const;
  void note_savings(size_t source, int size, Company company);
  void learn_odds(const Tree& guesses, int source, const Verdict& verdict);
  void count(const Verdict& verdict);

  std::vector<std::unique_ptr<Source>> sources_;
  DrafterOptions options_;
  bool uses_predictions_ = false;
  Odds odds_;
  std::vector<Asking> askings_;  // by source; those that take no part of a pass do not use them
  WidthCosts costs_;
  Statistics statistics_;
  std::vector<Token> seen_;    // the tokens that the sources have observed
  std::vector<Tree> guesses_;  // each source's guesses, by its number
  Pruner pruner_;
  Tree joined_;               // the trees of all sources
  std::vector<Guess> order_;  // the nodes of joined_, the most likely first
  Tree tree_;                 // the draft: the first nodes of order_
  double expected_tokens_ = 1.0;
  std::vector<int> moved_;   // maps nodes of one tree to nodes of another
  std::vector<float> sums_;  // is a member so that calls need not allocate
};

}  // namespace troika::draft
