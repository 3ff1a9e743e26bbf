// Counts the bytes that a process keeps in memory, by who keeps them, and limits them to what
// `--memory` says, or a plan, or what is free.
// The ledger counts what a run may touch at its longest shape and with a full context, before
// anything is taken, so that what does not fit is refused at the start and not in the middle.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace troika::plan {

enum class Owner : uint8_t {
  kProgram,  // holds what was resident before loading: code, libraries, the rest of the process
  kModel,    // holds tokenizer and description of the model
  kWeights,  // holds tensors of the file, whether mapped or copied to the place of the map
  kLayouts,  // holds weights whose layout changes, in place of the file's (D1)
  kPacked,  // holds copies of weights for prompts, and the scales to make them when they are needed
  kNeurons,   // holds columns of feed-forward blocks that are computed by neuron (P1)
  kChannels,  // holds the weights that outliers meet, by channel (N5)
  kBuffers,   // holds the values between ops, of all sets of buffers
  kHeads,     // holds the scores that heads of sparse attention hand on, as tasks of their own (S6)
  // Holds the scratch of lanes: rows in another form, weights unpacked, parts of attention, and the
  // copies of weights that devices have.
  kLanes,
  kCache,  // holds keys and values of all tokens that sequences may have together
};
inline constexpr int kOwners = 11;

// Returns what people call the owner: "keys and values".
const char* owner_name(Owner owner);
// Returns what scripts call the owner: "cache".
const char* owner_key(Owner owner);

// Says who has set a limit, so that a refusal names what its reader can change.
enum class LimitSource : uint8_t {
  kAsked,    // the caller has named it
  kPlan,     // the plan was made for it
  kMachine,  // no more memory of the machine is free
  kCgroup,   // no more memory is free within the limit of this process's cgroup
};

class Ledger {
 public:
  static constexpr size_t kUnlimited = SIZE_MAX;

  explicit Ledger(size_t limit_bytes = kUnlimited, LimitSource source = LimitSource::kAsked)
      : limit_bytes_(limit_bytes), source_(source) {}

  bool is_limited() const { return limit_bytes_ != kUnlimited; }
  size_t limit_bytes() const { return limit_bytes_; }
  // Returns the limit and where it comes from: "‹memory› 300.0 MB". REQUIRES: is_limited().
  std::string limit_text() const;
  // Returns what a reader can do to have more: "give more ‹memory›".
  const char* more_advice() const;
  // The same, with how much would do.
  std::string advice_for(size_t bytes) const;
  // Replaces the owner's bytes: an estimate gives way to what was taken.
  void set(Owner owner, size_t bytes) { bytes_[static_cast<size_t>(owner)] = bytes; }
  size_t bytes(Owner owner) const { return bytes_[static_cast<size_t>(owner)]; }
  // Lets a refusal say first what else would make the total smaller: "one chunk ‹in-flight›". An
  // empty advice adds nothing.
  void advise(std::string advice) { advice_ = std::move(advice); }
  size_t total_bytes() const;
  // Returns what an owner may have beside all the others; 0 where they take more than the limit.
  size_t room_for(Owner owner) const;
  // Throws Error where the total exceeds the limit. It names the largest entries and what would
  // make them smaller.
  void check() const;
  // Returns the three largest: "weights 120.0 MB, keys and values 30.0 MB and values 8.1 MB".
  std::string largest_text() const;

 private:
  size_t limit_bytes_;
  LimitSource source_;
  std::array<size_t, kOwners> bytes_{};
  std::string advice_;
};

}  // namespace troika::plan
