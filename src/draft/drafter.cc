#include "draft/drafter.h"

#include <algorithm>

#include "base/error.h"
#include "base/units.h"

namespace troika::draft {
namespace {

// A draft must gain more than this over plain decoding.
constexpr double kLeastGain = 1.02;
// A pass is at most this many times as wide as the widest pass before, because the cost of passes
// that are wider is a guess.
constexpr int kMostWidening = 2;

}  // namespace

class Drafter::Stopwatch {
 public:
  explicit Stopwatch(Drafter* drafter) : drafter_(*drafter) {}
  ~Stopwatch() { drafter_.statistics_.draft_ms += drafter_.now_ms() - start_ms_; }

 private:
  Drafter& drafter_;
  double start_ms_ = drafter_.now_ms();
};

double Drafter::now_ms() const {
  const double us = options_.clock != nullptr ? options_.clock->now_us() : RealClock().now_us();
  return us / kUsPerMs;
}

Drafter::Drafter(std::vector<std::unique_ptr<Source>> sources, const DrafterOptions& options)
    : sources_(std::move(sources)),
      options_(options),
      odds_(static_cast<int>(sources_.size())),
      askings_(sources_.size()),
      costs_(kMostPassRows),
      guesses_(sources_.size()) {
  TROIKA_ASSERT(options.most_width >= 1 && options.most_width <= kMostWidth);
  for (const auto& [width, ms] : options.costs_ms) {
    if (width <= kMostPassRows) costs_.begin_with(width, ms);
  }
  for (const auto& source : sources_) uses_predictions_ |= source->uses_predictions();
  clear_statistics();
  reserve();
}

void Drafter::reserve() {
  const int most_nodes = options_.most_width;
  const int most_joined = most_nodes * static_cast<int>(sources_.size());
  const int most_text = std::min(options_.most_text, kMostReservedText);
  for (const auto& source : sources_) source->reserve(most_text, most_nodes);
  for (Tree& guesses : guesses_) guesses.reserve(most_nodes);
  joined_.reserve(most_joined);
  tree_.reserve(most_nodes);
  const auto n_joined = static_cast<size_t>(most_joined);
  order_.reserve(n_joined);
  moved_.reserve(n_joined);
  sums_.reserve(n_joined + 1);
  seen_.reserve(static_cast<size_t>(most_text));
}

void Drafter::clear_statistics() {
  statistics_ = {};
  statistics_.n_of_draft_nodes.resize(static_cast<size_t>(options_.most_width));
  statistics_.n_of_accepted.resize(static_cast<size_t>(options_.most_width));
  for (const auto& source : sources_) statistics_.sources.push_back({source->name()});
}

void Drafter::begin(std::span<const Token> text, const std::atomic<bool>* cancel) {
  const Stopwatch watch(this);
  for (const auto& source : sources_) source->heed(cancel);
  const bool goes_on =
      text.size() >= seen_.size() && std::equal(seen_.begin(), seen_.end(), text.begin());
  if (!goes_on) {
    seen_.clear();
    for (const auto& source : sources_) source->reset();
  }
  follow(text);
}

void Drafter::calibrate(std::span<const LikelyNext> likely) {
  const Stopwatch watch(this);
  for (const auto& source : sources_) source->calibrate(likely);
}

void Drafter::follow(std::span<const Token> text) {
  TROIKA_ASSERT(text.size() >= seen_.size());
  const std::span<const Token> fresh = text.subspan(seen_.size());
  if (fresh.empty()) return;
  for (const auto& source : sources_) source->observe(fresh);
  seen_.insert(seen_.end(), fresh.begin(), fresh.end());
}

// Joins the trees of all sources, with chances that are corrected by experience. The chances of
// siblings add up to 1 at most.
void Drafter::join() {
  joined_.clear();
  for (size_t s = 0; s < sources_.size(); ++s) {
    const auto source = static_cast<int>(s);
    moved_.clear();
    for (const Node& node : guesses_[s].nodes()) {
      const int parent = node.parent == kRoot ? kRoot : moved_[static_cast<size_t>(node.parent)];
      const bool is_token = node.token >= 0 && node.token < options_.n_vocab;
      const float chance = odds_.corrected(source, node.chance);
      const bool is_kept = is_token && parent != Tree::kNoNode;
      moved_.push_back(is_kept ? joined_.add(parent, node.token, chance, source) : Tree::kNoNode);
    }
  }
  // Sums the chances of each node's children; those that follow the text come first.
  std::vector<float>& sums = sums_;
  sums.assign(static_cast<size_t>(joined_.size()) + 1, 0.0f);
  for (const Node& node : joined_.nodes())
    sums[static_cast<size_t>(node.parent) + 1] += node.chance;
  order_.clear();
  for (int i = 0; i < joined_.size(); ++i) {
    const Node& node = joined_[i];
    const float before =
        node.parent == kRoot ? 1.0f : order_[static_cast<size_t>(node.parent)].path_chance;
    const float sum = std::max(1.0f, sums[static_cast<size_t>(node.parent) + 1]);
    order_.push_back({i, before * node.chance / sum});
  }
  // No node is likelier than its parent, so sorting keeps parents in front of their children.
  std::sort(order_.begin(), order_.end(), [](const Guess& a, const Guess& b) {
    return a.path_chance != b.path_chance ? a.path_chance > b.path_chance : a.node < b.node;
  });
}

// Returns how many of the likeliest nodes give all texts of the pass the most tokens for its time.
int Drafter::best_size(int most_nodes, Company company) const {
  const int most = std::min(most_nodes, static_cast<int>(order_.size()));
  if (options_.is_fixed) return most;
  if (costs_.widest_measured() == 0) return 0;  // the time of plain decoding must be known first
  if (company.n_rows + 1 >= kMostPassRows) return 0;
  const int widest = std::min(
      {most + 1, kMostWidening * costs_.widest_measured(), kMostPassRows - company.n_rows});
  double tokens = company.n_tokens + 1.0;
  double best_rate = kLeastGain * tokens / costs_.ms(company.n_rows + 1);
  int best = 0;
  for (int width = 2; width <= widest; ++width) {
    tokens += order_[static_cast<size_t>(width) - 2].path_chance;
    const double rate = tokens / costs_.ms(company.n_rows + width);
    if (rate > best_rate) best_rate = rate, best = width - 1;
  }
  return best;
}

// Lets those sources guess that are worth their time.
void Drafter::ask(std::span<const Token> text, int most_nodes, double plain_ms) {
  for (size_t s = 0; s < sources_.size(); ++s) {
    guesses_[s].clear();
    if (most_nodes <= 0) continue;
    if (is_weighed(s)) askings_[s].begin_step(plain_ms);
    if (is_weighed(s) && !askings_[s].is_asked()) continue;
    const double start_ms = now_ms();
    sources_[s]->propose(most_nodes, &guesses_[s]);
    if (is_weighed(s)) askings_[s].took(now_ms() - start_ms);
    if (options_.rules != nullptr) pruner_.prune(text, options_.rules.get(), &guesses_[s]);
  }
}

// Tells what the guesses of a source should save in a draft of this size: what as many tokens take
// without a draft, less what the rows of the guesses take.
void Drafter::note_savings(size_t source, int size, Company company) {
  int n_rows = 0;
  double n_tokens = 0.0;
  for (const Guess& guess : std::span<const Guess>(order_).first(static_cast<size_t>(size))) {
    if (joined_[guess.node].source != static_cast<int>(source)) continue;
    ++n_rows;
    n_tokens += guess.path_chance;
  }
  const int n_plain = std::min(company.n_rows + 1, kMostPassRows);
  const double rows_ms = costs_.ms(n_plain + size) - costs_.ms(n_plain + size - n_rows);
  const double ms_per_token = costs_.ms(n_plain) / (company.n_tokens + 1.0);
  askings_[source].saves(n_tokens * ms_per_token - rows_ms);
}

const Tree& Drafter::propose(std::span<const Token> text, int most_nodes, Company company) {
  const Stopwatch watch(this);
  tree_.clear();
  follow(text);
  most_nodes = std::min(most_nodes, options_.most_width - 1);
  const double plain_ms = costs_.ms(std::min(company.n_rows + 1, kMostPassRows));
  ask(text, most_nodes, plain_ms);
  join();
  const int size = best_size(most_nodes, company);
  for (size_t s = 0; s < sources_.size(); ++s) {
    if (!is_weighed(s) || !askings_[s].is_asked() || most_nodes <= 0 || plain_ms <= 0.0) continue;
    note_savings(s, size, company);
  }
  expected_tokens_ = 1.0;
  moved_.assign(static_cast<size_t>(joined_.size()), kRoot);
  for (int i = 0; i < size; ++i) {
    const int from = order_[static_cast<size_t>(i)].node;
    expected_tokens_ += order_[static_cast<size_t>(i)].path_chance;
    const Node& node = joined_[from];
    const int parent = node.parent == kRoot ? kRoot : moved_[static_cast<size_t>(node.parent)];
    moved_[static_cast<size_t>(from)] = tree_.add(parent, node.token, node.chance, node.source);
  }
  return tree_;
}

// Compares what happened with all guesses of a source, even those that were not verified: so it
// costs no pass to learn that a source is worthless, or worth something again.
void Drafter::learn_odds(const Tree& guesses, int source, const Verdict& verdict) {
  int at = kRoot;
  for (size_t i = 0; i <= verdict.path.size(); ++i) {
    const bool is_last = i == verdict.path.size();
    const Token token = is_last ? verdict.next : verdict.tree[verdict.path[i]].token;
    if (is_last && verdict.next < 0) return;
    int right = Tree::kNoNode;
    for (int node = at + 1; node < guesses.size(); ++node) {
      if (guesses[node].parent != at) continue;
      const bool is_right = guesses[node].token == token;
      odds_.learn(source, guesses[node].chance, is_right);
      if (is_right) right = node;
    }
    if (right == Tree::kNoNode) return;
    at = right;
  }
}

void Drafter::count(const Verdict& verdict) {
  const auto n_nodes = static_cast<size_t>(verdict.tree.size());
  ++statistics_.n_verifications;
  statistics_.n_with_draft += n_nodes > 0;
  statistics_.n_tokens += static_cast<int64_t>(verdict.path.size()) + (verdict.next >= 0);
  statistics_.n_verified += static_cast<int64_t>(n_nodes);
  statistics_.n_accepted += static_cast<int64_t>(verdict.path.size());
  ++statistics_.n_of_draft_nodes[n_nodes];
  ++statistics_.n_of_accepted[verdict.path.size()];
  for (const Node& node : verdict.tree.nodes()) {
    ++statistics_.sources[static_cast<size_t>(node.source)].n_verified;
  }
  for (const int node : verdict.path) {
    ++statistics_.sources[static_cast<size_t>(verdict.tree[node].source)].n_accepted;
  }
}

void Drafter::learn(const Verdict& verdict) {
  const Stopwatch watch(this);
  count(verdict);
  for (size_t s = 0; s < sources_.size(); ++s) {
    learn_odds(guesses_[s], static_cast<int>(s), verdict);
    sources_[s]->learn(verdict);
  }
}

void Drafter::measured(int width, double ms) {
  statistics_.pass_ms += ms;
  // Plans may have wider steps than drafts ever make.
  if (width >= 1 && width <= kMostPassRows) costs_.learn(width, ms);
}

}  // namespace troika::draft
