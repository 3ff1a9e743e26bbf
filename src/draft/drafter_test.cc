#include "draft/drafter.h"

#include <gtest/gtest.h>

namespace troika::draft {
namespace {

using Tokens = std::vector<Token>;

// A source that guesses 1 2 3 ... with the same chance, whatever the text is.
class Counter : public Source {
 public:
  explicit Counter(float chance, Token first = 1) : chance_(chance), first_(first) {}
  const char* name() const override { return "counter"; }
  void reset() override {
    ++n_resets;
    seen.clear();
  }
  void observe(std::span<const Token> tokens) override {
    seen.insert(seen.end(), tokens.begin(), tokens.end());
  }
  void propose(int most, Tree* tree) override {
    int parent = kRoot;
    for (int i = 0; i < most; ++i) parent = tree->add(parent, first_ + i, chance_);
  }
  void reserve(int most_text, int /*most_nodes*/) override { most_reserved = most_text; }
  int n_resets = 0;
  int most_reserved = -1;
  Tokens seen;

 private:
  float chance_;
  Token first_;
};

struct WithCounter {
  explicit WithCounter(float chance, DrafterOptions options = {}) {
    auto own = std::make_unique<Counter>(chance);
    source = own.get();
    std::vector<std::unique_ptr<Source>> sources;
    sources.push_back(std::move(own));
    drafter = std::make_unique<Drafter>(std::move(sources), options);
  }
  // Takes a step in which n_right guesses are right, while each further row costs `slope` passes.
  // Returns the width of the step.
  int step(int n_right, double slope, int most = kMostWidth - 1) {
    const Tree& tree = drafter->propose(text, most);
    std::vector<int> path;
    for (int i = 0; i < n_right && i < tree.size(); ++i) path.push_back(i);
    for (const int node : path) text.push_back(tree[node].token);
    const Token next =
        static_cast<int>(path.size()) < n_right ? static_cast<Token>(path.size()) + 1 : 500;
    drafter->learn({tree, {}, path, next});
    text.push_back(next);
    const int width = tree.size() + 1;
    drafter->measured(width, 10.0 * (1.0 + slope * (width - 1)));
    return width;
  }
  Counter* source;
  std::unique_ptr<Drafter> drafter;
  Tokens text = {7, 8, 9};
};

TEST(Drafter, BeginsPlainAndWidensWhereGuessesComeTrueAndRowsAreCheap) {
  WithCounter run(0.8f);
  EXPECT_EQ(run.step(31, 0.02), 1);
  EXPECT_EQ(run.step(31, 0.02), 2);
  EXPECT_EQ(run.step(31, 0.02), 4);
  int width = 0;
  for (int i = 0; i < 40; ++i) width = run.step(31, 0.02);
  EXPECT_EQ(width, kMostWidth);
}

// A plan's context may be far longer than any text.
TEST(Drafter, TakesMemoryForTextsAsPeopleWriteThem) {
  EXPECT_EQ(WithCounter(0.8f, {.most_text = 4096}).source->most_reserved, 4096);
  EXPECT_EQ(WithCounter(0.8f, {.most_text = 1 << 27}).source->most_reserved, kMostReservedText);
}

TEST(Drafter, StaysPlainWhereGuessesAreWrong) {
  WithCounter run(0.8f);
  int n_wide = 0;
  for (int i = 0; i < 100; ++i) n_wide += run.step(0, 0.1) - 1;
  EXPECT_LE(n_wide, 20);  // allows two steps in all, since a row costs a tenth of a token
  n_wide = 0;
  for (int i = 0; i < 1000; ++i) n_wide += run.step(0, 0.1) - 1;
  EXPECT_LE(n_wide, 50);
}

// The drafter also judges guesses that it did not have verified.
TEST(Drafter, ComesBackWhereGuessesComeTrueAgain) {
  WithCounter run(0.8f);
  for (int i = 0; i < 100; ++i) run.step(0, 0.1);
  int width = 0;
  for (int i = 0; i < 60; ++i) width = run.step(31, 0.1);
  EXPECT_GT(width, 4);
}

// At most 3 % are lost in all steps together, whatever guesses are worth and rows cost.
TEST(Drafter, NeverLosesMuch) {
  for (const double slope : {0.02, 0.1, 0.3, 1.0}) {
    for (const int n_right : {0, 1, 3, 31}) {
      for (const float chance : {0.3f, 0.8f}) {
        WithCounter run(chance);
        const size_t n_before = run.text.size();
        double steps = 0.0;  // counts in passes of one token
        for (int i = 0; i < 400; ++i) steps += 1.0 + slope * (run.step(n_right, slope) - 1);
        const auto n_tokens = static_cast<double>(run.text.size() - n_before);
        EXPECT_GE(n_tokens, 0.97 * steps) << slope << " " << n_right << " " << chance;
      }
    }
  }
}

// Stands for the time of sources that take some.
struct ClockOfTest : Clock {
  double now_us() const override { return us; }
  double us = 0.0;
};

// A source that takes time to guess.
class SlowCounter : public Counter {
 public:
  SlowCounter(float chance, double ms, ClockOfTest* clock)
      : Counter(chance), ms_(ms), clock_(*clock) {}
  bool takes_passes() const override { return true; }
  void propose(int most, Tree* tree) override {
    ++n_asked;
    // A model reads the whole prompt first, and later what came since it was asked, but for its own
    // guesses.
    const auto n_new = static_cast<double>(seen.size() - std::min(n_read_, seen.size()));
    clock_.us += 1000.0 * ms_ * (n_asked == 1 ? 50.0 : 1.0 + 0.003 * std::max(0.0, n_new - 9.0));
    n_read_ = seen.size();
    Counter::propose(std::min(most, 8), tree);
  }
  int n_asked = 0;

 private:
  double ms_;
  size_t n_read_ = 0;
  ClockOfTest& clock_;
};

// Steps with a source that takes so many passes of one token.
struct WithSlowCounter {
  explicit WithSlowCounter(double passes, float chance = 0.8f) {
    auto own = std::make_unique<SlowCounter>(chance, 10.0 * passes, &clock);
    slow = own.get();
    std::vector<std::unique_ptr<Source>> sources;
    sources.push_back(std::move(own));
    DrafterOptions options;
    options.clock = &clock;
    run.source = slow;
    run.drafter = std::make_unique<Drafter>(std::move(sources), options);
  }
  // Takes n steps, and returns how many passes of one token these take, and the guesses with them,
  // for each token.
  double passes_per_token(int n, int n_right, double slope) {
    const size_t n_before = run.text.size();
    const double us_before = clock.us;
    double passes = 0.0;
    for (int i = 0; i < n; ++i) passes += 1.0 + slope * (run.step(n_right, slope) - 1);
    passes += (clock.us - us_before) / 10000.0;
    return passes / static_cast<double>(run.text.size() - n_before);
  }
  ClockOfTest clock;
  SlowCounter* slow = nullptr;
  WithCounter run{0.0f};
};

TEST(Drafter, AsksASourceSeldomThatTakesMoreThanItsGuessesSave) {
  for (const double passes : {0.05, 0.3, 1.0, 2.0, 5.0}) {
    for (const int n_right : {0, 1}) {
      if (passes < 1.0 && n_right > 0) continue;  // this may pay
      WithSlowCounter with(passes);
      with.passes_per_token(100, n_right, 0.1);  // finds out
      EXPECT_LE(with.passes_per_token(2000, n_right, 0.1), 1.05) << passes << " " << n_right;
      // Reading what was not seen while it waited counts as asking, too.
      EXPECT_LE(with.passes_per_token(20000, n_right, 0.1), 1.025) << passes << " " << n_right;
      EXPECT_GT(with.slow->n_asked, 100 / 10) << "it might become better";
    }
  }
}

TEST(Drafter, AsksASlowSourceAlwaysWhereItPays) {
  for (const double passes : {0.05, 1.0, 2.0}) {
    WithSlowCounter with(passes);
    with.passes_per_token(400, 8, 0.02);
    EXPECT_GE(with.slow->n_asked, 380) << passes;
    EXPECT_LT(with.passes_per_token(100, 8, 0.02), 0.5) << passes;
  }
}

TEST(Drafter, AsksASlowSourceAgainThatHasBecomeBetter) {
  WithSlowCounter with(1.0);
  with.passes_per_token(500, 0, 0.05);
  with.passes_per_token(1500, 8, 0.05);
  EXPECT_LT(with.passes_per_token(100, 8, 0.05), 0.5);
}

// Others wait for the guesses of one text, too.
TEST(Drafter, AsksASlowSourceWhereItPaysForAllTextsOfThePass) {
  for (const int n_others : {0, 7}) {
    WithSlowCounter with(1.0);
    const Company company = {n_others, static_cast<double>(n_others)};
    for (int i = 0; i < 300; ++i) {
      const Tree& tree = with.run.drafter->propose(with.run.text, 8, company);
      std::vector<int> path;
      for (int node = 0; node < std::min(4, tree.size()); ++node) path.push_back(node);
      for (const int node : path) with.run.text.push_back(tree[node].token);
      const Token next = path.size() < 4 ? static_cast<Token>(path.size()) + 1 : 500;
      with.run.drafter->learn({tree, {}, path, next});
      with.run.text.push_back(next);
      const int n_rows = n_others + 1 + tree.size();
      with.run.drafter->measured(n_rows, 10.0 + 0.1 * n_rows);
    }
    if (n_others == 0) {
      EXPECT_GE(with.slow->n_asked, 290);
    } else {
      EXPECT_LE(with.slow->n_asked, 50);
    }
  }
}

TEST(Drafter, IsAsWideAsItMayBeWhereTheWidthIsFixed) {
  WithCounter run(0.1f, {6, /*is_fixed=*/true});
  for (int i = 0; i < 20; ++i) EXPECT_EQ(run.step(0, 3.0), 6);
  EXPECT_EQ(run.step(0, 3.0, 2), 3);
  EXPECT_EQ(run.step(0, 3.0, 0), 1);
}

// A draft that pays for its own text may cost the others in its pass more than it gives.
TEST(Drafter, DraftsLessInCompanyThatWouldWait) {
  DrafterOptions options;
  for (int width = 1; width <= 16; ++width)
    options.costs_ms.emplace_back(width, 10.0 + 4.0 * width);
  WithCounter run(0.5f, options);
  const int alone = run.drafter->propose(run.text, 7).size();
  EXPECT_GT(alone, 0);
  EXPECT_GT(run.drafter->expected_tokens(), 1.4);
  // Another row takes a tenth of this pass, and gives half a token to one text of eight.
  EXPECT_EQ(run.drafter->propose(run.text, 7, {7, 7.0}).size(), 0);
  EXPECT_EQ(run.drafter->expected_tokens(), 1.0);
  // Nearly sure guesses pay in company too.
  WithCounter sure(0.97f, options);
  EXPECT_GT(sure.drafter->propose(sure.text, 7, {7, 7.0}).size(), 0);
}

// More answers may step together than a draft's pass may have rows.
TEST(Drafter, LeavesPassesAloneThatAreWiderThanItsOwn) {
  DrafterOptions options;
  for (int width = 1; width <= 16; ++width)
    options.costs_ms.emplace_back(width, 10.0 + 0.1 * width);
  WithCounter run(0.97f, options);
  for (const int n_rows : {kMostPassRows - 1, kMostPassRows, 3 * kMostPassRows}) {
    EXPECT_EQ(run.drafter->propose(run.text, 7, {n_rows, 7.0}).size(), 0) << n_rows;
    run.drafter->measured(n_rows + 1, 16.0);
  }
  run.drafter->measured(0, 50.0);
  EXPECT_EQ(run.drafter->costs().widest_measured(), kMostPassRows);
  EXPECT_EQ(run.drafter->statistics().pass_ms, 3 * 16.0 + 50.0);
}

TEST(Drafter, DropsGuessesThatAreNoTokens) {
  WithCounter run(0.9f, {8, /*is_fixed=*/true, /*n_vocab=*/4});
  EXPECT_EQ(run.drafter->propose(run.text, 7).size(), 3);
}

TEST(Drafter, ShowsItsSourcesTheWholeTextOnce) {
  WithCounter run(0.5f);
  run.drafter->begin(run.text);
  run.step(3, 0.1);
  run.step(3, 0.1);
  run.drafter->propose(run.text, 3);
  EXPECT_EQ(run.source->seen, run.text);
  EXPECT_EQ(run.source->n_resets, 0);
  run.text.push_back(3);
  run.drafter->begin(run.text);
  EXPECT_EQ(run.source->n_resets, 0);
  run.text.resize(4);
  run.drafter->begin(run.text);
  EXPECT_EQ(run.source->n_resets, 1);
  EXPECT_EQ(run.source->seen, run.text);
}

TEST(Drafter, CountsWhatHappened) {
  std::vector<std::unique_ptr<Source>> sources;
  sources.push_back(std::make_unique<Counter>(0.9f, 1));
  sources.push_back(std::make_unique<Counter>(0.2f, 50));
  Drafter drafter(std::move(sources), {8, /*is_fixed=*/true});
  const Tree& tree = drafter.propose(Tokens{1}, 7);
  ASSERT_EQ(tree.size(), 7);
  const std::vector<int> path = {0, 1, 2};
  drafter.learn({tree, {}, path, 9});
  drafter.measured(8, 5.0);
  const Statistics& s = drafter.statistics();
  EXPECT_EQ(s.n_verifications, 1);
  EXPECT_EQ(s.n_with_draft, 1);
  EXPECT_EQ(s.n_tokens, 4);
  EXPECT_EQ(s.n_verified, 7);
  EXPECT_EQ(s.n_accepted, 3);
  EXPECT_EQ(s.n_of_draft_nodes[7], 1);
  EXPECT_EQ(s.n_of_accepted[3], 1);
  EXPECT_EQ(s.pass_ms, 5.0);
  EXPECT_EQ(s.sources[0].n_accepted, 3);
  EXPECT_EQ(s.sources[1].n_accepted, 0);
  EXPECT_EQ(s.sources[0].n_verified + s.sources[1].n_verified, 7);
  EXPECT_DOUBLE_EQ(s.tokens_per_verification(), 4.0);
}

TEST(Drafter, BeginsWithWhatPassesTookBefore) {
  DrafterOptions options;
  options.costs_ms = {{1, 10.0}, {8, 12.0}, {1000, 1.0}};
  Drafter drafter({}, options);
  EXPECT_EQ(drafter.costs().widest_measured(), 8);
  EXPECT_NEAR(drafter.costs().ms(8), 12.0, 0.1);
  drafter.measured(1, 9.0);
  EXPECT_NEAR(drafter.costs().ms(1), 9.0, 0.1);
}

TEST(WidthCosts, InterpolatesAndGoesOn) {
  WidthCosts costs(32);
  EXPECT_EQ(costs.ms(5), 0.0);
  costs.learn(1, 10.0);
  EXPECT_GT(costs.ms(2), 10.0);
  costs.learn(5, 14.0);
  EXPECT_DOUBLE_EQ(costs.ms(3), 12.0);
  EXPECT_NEAR(costs.ms(9), 18.0, 0.1);
  EXPECT_EQ(costs.widest_measured(), 5);
  EXPECT_EQ(costs.measured().size(), 2u);
}

TEST(WidthCosts, DoesNotBelieveInterruptions) {
  WidthCosts costs(32);
  for (int i = 0; i < 10; ++i) costs.learn(1, 10.0);
  costs.learn(1, 10000.0);
  EXPECT_LT(costs.ms(1), 11.0);
  costs.learn(8, 500.0);
  for (int i = 0; i < 4000; ++i) costs.learn(1, 10.0);
  EXPECT_LT(costs.ms(8), 25.0);
}

TEST(WidthCosts, TriesAWidthAgainWhoseFirstPassWasSlow) {
  WidthCosts costs(32);
  for (int i = 0; i < 3; ++i) {
    for (int width = 1; width <= 4; ++width) costs.learn(width, 10.0 + width);
  }
  costs.learn(5, 40.0);  // is an interruption or a jump, which cannot be known yet
  EXPECT_NEAR(costs.ms(5), 15.0, 1.0);
  EXPECT_LT(costs.ms(6), 18.0);
  WidthCosts interrupted = costs;
  interrupted.learn(5, 15.2);
  EXPECT_NEAR(interrupted.ms(5), 15.2, 0.1);
  costs.learn(5, 39.0);  // shows that it was a jump
  EXPECT_NEAR(costs.ms(5), 39.0, 0.1);
}

TEST(WidthCosts, BelievesWhatWasMeasuredInQuiet) {
  WidthCosts costs(32);
  costs.begin_with(1, 10.0);
  costs.begin_with(8, 70.0);
  EXPECT_DOUBLE_EQ(costs.ms(8), 70.0);
  EXPECT_EQ(costs.widest_measured(), 8);
}

TEST(Odds, FollowWhatHappened) {
  Odds odds(2);
  EXPECT_FLOAT_EQ(odds.corrected(0, 0.6f), 0.6f);
  for (int i = 0; i < 100; ++i) odds.learn(0, 0.6f, i % 4 == 0);
  EXPECT_NEAR(odds.corrected(0, 0.6f), 0.27f, 0.06f);
  EXPECT_FLOAT_EQ(odds.corrected(1, 0.6f), 0.6f);
  EXPECT_FLOAT_EQ(odds.corrected(0, 0.95f), 0.95f);
}

}  // namespace
}  // namespace troika::draft
