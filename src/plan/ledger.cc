#include "plan/ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "base/error.h"

namespace troika::plan {
namespace {

struct OwnerInfo {
  const char* name;
  const char* key;
  const char* advice;    // what makes the entry smaller; null: nothing that a user could do
  bool is_more = false;  // an option alone brought it, so that leaving the option out is an advice
};

constexpr OwnerInfo kInfos[kOwners] = {
    {"program", "program", nullptr},
    {"tokenizer and description", "model", nullptr},
    {"weights", "weights", "a smaller model or element type"},
    {"changing layouts", "layouts", "‹layouts› blocks", true},
    {"packed weights", "packed", "less ‹packed› or ‹layouts› blocks", true},
    {"weights by neuron", "neurons", "‹ffn› by-output", true},
    {"outliers' channels", "channels", "‹shadow-rows› none", true},
    {"values", "buffers", "a smaller ‹chunk›"},
    {"scores of heads", "heads", "fewer chunks ‹in-flight› or no ‹attention-lanes›"},
    {"lanes", "lanes", "fewer ‹threads›, less on devices by ‹place›"},
    {"keys and values", "cache", "a smaller ‹context›, ‹kv› q8_0"},
};

// Each has what stands before the bytes of a limit and behind them, and what gives more.
constexpr const char* kSources[][3] = {
    {"‹memory› ", "", "give more ‹memory›"},
    {"the plan's limit of memory, ", ",", "give more ‹memory›"},
    {"the free memory of this machine, ", " for this program,", "end other programs"},
    {"the memory that the limit of the cgroup leaves, ", " for this program,",
     "raise the limit of the cgroup"},
};

const OwnerInfo& info_of(Owner owner) { return kInfos[static_cast<size_t>(owner)]; }

std::string megabytes(size_t bytes) {
  return fmt::format("{:.1f} MB", 1e-6 * static_cast<double>(bytes));
}

// Returns words as a sentence begins with them. The mark of an option has no capital.
std::string capitalised(std::string words) {
  if (words.front() >= 'a' && words.front() <= 'z') words.front() += 'A' - 'a';
  return words;
}

constexpr size_t kLargest = 3;

// Returns the owners that take anything, the largest first.
std::vector<Owner> by_size(const Ledger& ledger) {
  std::vector<Owner> owners;
  for (int i = 0; i < kOwners; ++i) {
    const auto owner = static_cast<Owner>(i);
    if (ledger.bytes(owner) > 0) owners.push_back(owner);
  }
  std::stable_sort(owners.begin(), owners.end(),
                   [&](Owner a, Owner b) { return ledger.bytes(a) > ledger.bytes(b); });
  return owners;
}

}  // namespace

const char* owner_name(Owner owner) { return info_of(owner).name; }
const char* owner_key(Owner owner) { return info_of(owner).key; }

size_t Ledger::total_bytes() const {
  size_t total = 0;
  for (const size_t bytes : bytes_) {
    // A context of any length may be asked for, and the sum of bytes must not wrap around.
    total += std::min(bytes, std::numeric_limits<size_t>::max() - total);
  }
  return total;
}

size_t Ledger::room_for(Owner owner) const {
  Ledger others = *this;
  others.set(owner, 0);
  const size_t taken = others.total_bytes();
  return taken < limit_bytes_ ? limit_bytes_ - taken : 0;
}

std::string Ledger::largest_text() const {
  std::vector<Owner> owners = by_size(*this);
  owners.resize(std::min(owners.size(), kLargest));
  std::string text;
  for (size_t i = 0; i < owners.size(); ++i) {
    if (i > 0) text += i + 1 == owners.size() ? " and " : ", ";
    text += fmt::format("{} {}", owner_name(owners[i]), megabytes(bytes(owners[i])));
  }
  return text;
}

std::string Ledger::limit_text() const {
  const auto& words = kSources[static_cast<size_t>(source_)];
  return words[0] + megabytes(limit_bytes_) + words[1];
}

const char* Ledger::more_advice() const { return kSources[static_cast<size_t>(source_)][2]; }

// An option takes bytes in 1024s, as in 23M.
std::string Ledger::advice_for(size_t bytes) const {
  if (source_ != LimitSource::kAsked && source_ != LimitSource::kPlan) return more_advice();
  constexpr size_t kMebibyte = size_t{1} << 20;
  return fmt::format("{}, as in {}M", more_advice(), (bytes + kMebibyte - 1) / kMebibyte);
}

void Ledger::check() const {
  const size_t total = total_bytes();
  if (total <= limit_bytes_) return;
  std::string advice = advice_.empty() ? "" : ", " + advice_;
  size_t n_named = 0;
  for (const Owner owner : by_size(*this)) {
    const OwnerInfo& info = info_of(owner);
    if (info.advice == nullptr || (n_named >= kLargest && !info.is_more)) continue;
    ++n_named;
    advice += fmt::format(", {}", info.advice);
  }
  throw Error(fmt::format(
      "{} is too little: {} are needed, most of them for {}. {}, or use less of what "
      "takes them{}{}.",
      capitalised(limit_text()), megabytes(total), largest_text(), capitalised(advice_for(total)),
      advice.empty() ? "" : ": ", advice.empty() ? "" : advice.substr(2)));
}

}  // namespace troika::plan
