#include "engine/narrowing.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace troika::engine {
namespace {

// Counts the logits that are compared together, so that compilers make vectors of them.
constexpr size_t kComparedTogether = 16;
// Is how many candidates are sorted at first; so few are sorted as a whole.
constexpr size_t kFewCandidates = 256;
// Is by how much a probability may fall where its logit rises, because of how `exp` rounds.
constexpr float kExpIsRight = 0.999f;

bool is_more_likely(const Candidate& a, const Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

// Finds the k most likely tokens that are not forbidden. Few logits exceed the least of the best
// ones so far, so most can be passed over many at a time.
void find_few(std::span<const float> logits, size_t k, std::vector<Candidate>* found) {
  found->reserve(std::min(k, logits.size()) + 1);
  float least = -std::numeric_limits<float>::infinity();  // the next logit must exceed this
  for (size_t first = 0; first < logits.size(); first += kComparedTogether) {
    const std::span<const float> part =
        logits.subspan(first, std::min(kComparedTogether, logits.size() - first));
    if (part.size() == kComparedTogether) {
      int n_above = 0;
      for (size_t j = 0; j < kComparedTogether; ++j) n_above += part[j] > least ? 1 : 0;
      if (n_above == 0) continue;
    }
    for (size_t j = 0; j < part.size(); ++j) {
      if (part[j] <= least) continue;  // of equal logits the first is more likely
      found->push_back({static_cast<Token>(first + j), part[j], 0.0f});
      std::push_heap(found->begin(), found->end(), is_more_likely);
      if (found->size() > k) {
        std::pop_heap(found->begin(), found->end(), is_more_likely);
        found->pop_back();
      }
      if (found->size() == k) least = found->front().logit;
    }
  }
}

// Finds the k most likely tokens that are not forbidden, in any order.
void find_many(std::span<const float> logits, size_t k, std::vector<Candidate>* found) {
  found->reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] == -std::numeric_limits<float>::infinity()) continue;
    found->push_back({static_cast<Token>(i), logits[i], 0.0f});
  }
  if (found->size() <= k) return;
  const auto end = found->begin() + static_cast<ptrdiff_t>(k);
  std::nth_element(found->begin(), end, found->end(), is_more_likely);
  found->erase(end, found->end());
}

// Sets the probabilities and returns their sum.
double weigh(float best, std::vector<Candidate>* candidates) {
  double sum = 0.0;
  for (Candidate& c : *candidates) {
    c.probability = std::exp(c.logit - best);
    sum += c.probability;
  }
  return sum;
}

void narrow_sorted(const SamplerOptions& options, std::vector<Candidate>* candidates) {
  std::sort(candidates->begin(), candidates->end(), is_more_likely);
  const double sum = weigh(candidates->front().logit, candidates);
  double running = 0.0;
  size_t n_kept = 0;
  for (const Candidate& c : *candidates) {
    if (n_kept > 0 && (running >= options.top_p * sum || c.probability < options.min_p)) break;
    running += c.probability;
    ++n_kept;
  }
  candidates->resize(n_kept);
}

// Does what `narrow_sorted` does, and sorts about as many candidates as are kept. The sum of all is
// taken in another order here, so it may differ in its last bits. Returns false where these
// bits would decide what is kept; then all candidates are still there, in another order.
bool narrow_by_parts(const SamplerOptions& options, std::vector<Candidate>* candidates) {
  const auto begin = candidates->begin();
  const float best = std::min_element(begin, candidates->end(), is_more_likely)->logit;
  const double sum = weigh(best, candidates);
  const double wanted = options.top_p * sum;
  // Bounds by how much two orders of the sum can differ.
  const double doubt =
      2.0 * std::numeric_limits<double>::epsilon() * static_cast<double>(candidates->size()) * sum;
  const float least = options.min_p * kExpIsRight;
  const auto end = std::partition(begin, candidates->end(),
                                  [least](const Candidate& c) { return c.probability >= least; });
  double running = 0.0;
  auto kept = begin, sorted = begin;
  for (; kept != end; ++kept) {
    if (kept == sorted) {
      const auto n_more = std::max<ptrdiff_t>(kFewCandidates, sorted - begin);
      sorted += std::min(n_more, end - sorted);
      if (sorted != end) std::nth_element(kept, sorted, end, is_more_likely);
      std::sort(kept, sorted, is_more_likely);
    }
    if (kept != begin) {
      if (kept->probability < options.min_p) break;
      if (running > wanted + doubt) break;
      if (running >= wanted - doubt) return false;
    }
    running += kept->probability;
  }
  candidates->erase(kept, candidates->end());
  return true;
}

}  // namespace

void narrow(std::span<const float> logits, const SamplerOptions& options,
            std::vector<Candidate>* candidates) {
  candidates->clear();
  const size_t k = options.top_k > 0 ? static_cast<size_t>(options.top_k) : logits.size();
  if (k <= kFewCandidates) {
    find_few(logits, k, candidates);
  } else {
    find_many(logits, k, candidates);
  }
  if (candidates->empty()) return;
  const bool keeps_all = options.top_p == 1.0f && options.min_p == 0.0f;
  const bool are_many = candidates->size() > kFewCandidates && !keeps_all;
  if (!are_many || !narrow_by_parts(options, candidates)) narrow_sorted(options, candidates);
}

}  // namespace troika::engine
