#include "engine/drafting/draft_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"

namespace troika::engine {
namespace {

// A draft ends where the model holds all of its guesses together for less likely than this.
constexpr float kLeastPathChance = 0.3f;
constexpr int kMostTokens = 8;

// Says whether two vocabularies are the same up to the end of the shorter one. What follows is
// padding, in which models of one family differ.
bool same_tokens(const text::Tokenizer& a, const text::Tokenizer& b) {
  const Token n = std::min(a.n_tokens(), b.n_tokens());
  constexpr Token kMostPadding = 1024;
  if (std::max(a.n_tokens(), b.n_tokens()) - n > kMostPadding) return false;
  for (Token token = 0; token < n; ++token) {
    if (a.piece(token, true) != b.piece(token, true)) return false;
  }
  return true;
}

// Returns the most likely token and its probability.
std::pair<Token, float> best_of(std::span<const float> logits, const kernels::Table& kernels) {
  const size_t best = kernels.argmax(logits.data(), logits.size());
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(logit - logits[best]);
  return {static_cast<Token>(best), static_cast<float>(1.0 / sum)};
}

// Returns the options of a draft model, from those of the large one.
prepare::Options draft_options(const Engine& large, const prepare::Options& options,
                               const std::string& path) {
  prepare::Options own;
  own.model.file = path;
  own.lanes.n_threads = options.lanes.n_threads;
  // A device computes in floats or not at all, and guesses may be rounded.
  const bool has_own_cores =
      options.lanes.cores.size() == 1 && options.lanes.cores.front().kind == "host";
  if (has_own_cores) own.lanes.cores = options.lanes.cores;
  own.memory.context = large.plan().context;
  own.memory.kv_type = options.memory.kv_type;
  own.memory.has_side_files = options.memory.has_side_files;
  own.kernels = options.kernels;
  own.memory.limit_bytes = options.memory.limit_bytes;
  if (own.memory.limit_bytes == 0 && large.plan().streamed_neurons) {
    own.memory.limit_bytes = large.ledger().limit_bytes();  // the plan's budget, or what is free
  }
  if (own.memory.limit_bytes == 0) return own;
  // The limit is for both together. A tokenizer of the same tokens takes as much once more.
  const plan::Ledger& ledger = large.ledger();
  const size_t of_model = ledger.bytes(plan::Owner::kModel);
  own.memory.held_bytes =
      ledger.total_bytes() + of_model - std::min(of_model, prepare::header_bytes(large.file()));
  return own;
}

std::unique_ptr<Engine> open_draft_model(const Engine& large, const prepare::Options& options,
                                         const std::string& path) {
  const prepare::Options own = draft_options(large, options, path);
  try {
    return std::make_unique<Engine>(own);
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    const std::string_view why = error.what();
    if (!own.memory.held_bytes || why.find("‹memory›") == why.npos) throw;
    throw Error(fmt::format(
        "{} The draft model {} has what is left beside {}, which takes {:.1f} MB; use another "
        "‹draft› to do without it.",
        why, path, large.file().path(), 1e-6 * static_cast<double>(large.ledger().total_bytes())));
  }
}

}  // namespace

DraftModel::DraftModel(const Engine& large, const prepare::Options& options,
                       const std::string& path) {
  if (path.empty()) throw UsageError("‹draft› model: needs a file: model:FILE.");
  engine_ = open_draft_model(large, options, path);
  if (!same_tokens(large.tokenizer(), engine_->tokenizer())) {
    throw Error(
        fmt::format("{}: its tokens are not those of {}, so it cannot draft for it. Choose a "
                    "smaller model of the same family.",
                    path, large.file().path()));
  }
  session_ = std::make_unique<Session>(*engine_);
}

void DraftModel::observe(std::span<const Token> tokens) {
  text_.insert(text_.end(), tokens.begin(), tokens.end());
}

// Brings the model's text up to date. Guesses of last time stay in its cache as far as they came
// true. A prompt's pass would take none of what steps have left, so tokens behind them are computed
// as steps are, unless they are many, and more than steps have left.
void DraftModel::catch_up() {
  const std::span<const Token> known = session_->history();
  const auto n_common = static_cast<size_t>(
      std::mismatch(known.begin(), known.end(), text_.begin(), text_.end()).first - known.begin());
  const size_t n_new = text_.size() - n_common;
  n_prefilled_ = std::min(n_prefilled_, n_common);
  const size_t n_left_by_steps = n_common - n_prefilled_;
  const auto few = static_cast<size_t>(std::min(kMostTokens, engine_->plan().most_step_rows()));
  if (n_common == 0 || n_new == 0 || n_new > std::max(few, n_left_by_steps)) {
    session_->prefill(text_, cancel_);
    n_prefilled_ = session_->history().size();
    return;
  }
  session_->truncate(static_cast<int>(n_common));
  // The last one is computed when its logits are asked for.
  compute_as_steps(std::span<const Token>(text_).subspan(n_common, n_new - 1));
  session_->append(text_.back());
}

// Computes tokens behind the history, as many in a pass as it has room for.
void DraftModel::compute_as_steps(std::span<const Token> tokens) {
  const auto most = static_cast<size_t>(engine_->plan().most_step_rows());
  while (!tokens.empty()) {
    const std::span<const Token> some = tokens.first(std::min(most, tokens.size()));
    std::vector<int> path(some.size());
    std::iota(path.begin(), path.end(), 0);
    cache::Batch batch;
    batch.add_chain(some, static_cast<int>(session_->history().size()), 0);
    session_->run_batch(batch, {}, [&] { return path; });
    tokens = tokens.subspan(some.size());
  }
}

void DraftModel::propose(int most, draft::Tree* tree) {
  const int room = session_->context() - static_cast<int>(text_.size());
  const int n = std::min({most, kMostTokens, room});
  const auto is_known = [&](Token token) {
    return token >= 0 && token < engine_->blueprint().n_vocab;
  };
  if (n < 1 || text_.empty() || !std::all_of(text_.begin(), text_.end(), is_known)) return;
  catch_up();
  if (session_->history().size() < text_.size()) return;  // was cancelled meanwhile
  int parent = draft::kRoot;
  float path_chance = 1.0f;
  for (int i = 0; i < n; ++i) {
    const auto [token, chance] = best_of(session_->logits(), engine_->kernels().table);
    path_chance *= chance;
    // The comparison is written so that a chance that is no number ends the draft.
    if (!(path_chance >= kLeastPathChance)) return;
    parent = tree->add(parent, token, chance);
    if (i + 1 < n) session_->append(token);
  }
}

}  // namespace troika::engine
