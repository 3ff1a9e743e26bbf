#include "server/kept/kept_prefixes.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/clock.h"
#include "base/digests/sha.h"
#include "base/error.h"
#include "cache/kv_rows.h"
#include "prepare/plan/saved_plan.h"
#include "tune/kept_plan.h"
#include "weights/content_key.h"

namespace troika::server {
namespace {

// Is the usual number of tokens of a block. A file for fewer tokens would cost more than computing
// them; a file for more would take so long to read that other answers would wait too long.
constexpr int kUsualBlock = 128;
// Limits the copied blocks that wait for the disk.
constexpr size_t kMostBlocksUnderWay = 2;
// Limits the texts that wait to be copied. If there are more, the oldest are forgotten.
constexpr size_t kMostTexts = 64;

// Names all that a block's bits depend on but the text. Another content of the model, another plan,
// program or machine has another name, and so its blocks have other keys.
std::string identity_of(const engine::Engine& engine, const cache::KvShape& shape, int block) {
  plan::PlanFile file{prepare::plan_identity(engine.file()), engine.plan()};
  file.made_for.model.clear();  // the model's path does not count, only its content
  return fmt::format("{}\n{:016x}\n{} {} {} {} {}\n{}", tune::program_name(engine.kernels()),
                     weights::content_key(engine.file()), shape.n_layers, shape.n_kv_heads,
                     shape.head_dim, tensor::type_name(shape.type), block, plan::to_json(file));
}

// Returns the engine's plan. Throws Error if keys and values are not plain memory of this process.
const plan::Plan& checked_plan(const engine::Engine& engine) {
  const plan::Plan& plan = engine.plan();
  const bool has_device = std::any_of(plan.lanes.begin(), plan.lanes.end(),
                                      [](const auto& lane) { return lane.is_device(); });
  if (engine.phone().machine == nullptr && engine.has_values() && !has_device) return plan;
  throw Error(
      "Prefixes are kept on disk where the cores of this machine alone compute. Leave out "
      "‹cache-dir›, or the other device.");
}

}  // namespace

KeptPrefixes::KeptPrefixes(engine::Engine& engine, const KeepOptions& options,
                           std::function<void()> on_room)
    : engine_(engine),
      options_(options),
      on_room_(std::move(on_room)),
      block_(std::lcm(kUsualBlock, checked_plan(engine).reuse_granule)),
      block_bytes_(cache::rows_bytes(engine.passes().kv.shape(), block_)),
      identity_(identity_of(engine, engine.passes().kv.shape(), block_)),
      folder_(options.folder, options.most_bytes),
      thread_([this] { write(); }) {}

KeptPrefixes::~KeptPrefixes() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

// Returns the keys of a text's blocks. The hash of each key takes in the key before, so equal keys
// mean equal texts up to the block's end.
std::vector<std::string> KeptPrefixes::keys_of(std::span<const engine::Token> tokens,
                                               std::span<const cache::Tag> tags,
                                               const std::string& key) const {
  Sha256 start;
  start.add(identity_);
  start.add(options_.is_shared ? std::string("\nshared") : "\nof " + key);
  std::string before = start.hex();
  std::vector<std::string> keys;
  const auto block = static_cast<size_t>(block_);
  for (size_t at = 0; at + block <= tokens.size(); at += block) {
    Sha256 hash;
    hash.add(before);
    hash.add(std::as_bytes(tokens.subspan(at, block)));
    hash.add(std::as_bytes(tags.subspan(at, block)));
    keys.push_back(before = hash.hex());
  }
  return keys;
}

// Counts how many of the text's first `n_blocks` blocks some sequence of the cache holds.
int KeptPrefixes::n_in_cache(const Text& text, size_t n_blocks) const {
  const size_t n_tokens = n_blocks * static_cast<size_t>(block_);
  const cache::Prefix found = engine_.passes().sequences.longest_prefix(
      std::span(text.tokens).first(n_tokens), text.tags, block_, text.owner);
  return found.length / block_;
}

KeptPrefixes::Text KeptPrefixes::loadable(std::span<const engine::Token> prompt,
                                          const Asker& asker) const {
  const auto n_prompt = static_cast<int>(prompt.size());
  Text text;
  if (n_prompt <= block_) return text;
  // The last token is computed in any case.
  text.tokens.assign(prompt.begin(), prompt.end() - 1);
  for (int i = 0; i < n_prompt - 1; ++i) text.tags.push_back(engine_.passes().tag_at(i, n_prompt));
  text.keys = keys_of(text.tokens, text.tags, asker.key);
  text.owner = asker.owner;
  return text;
}

bool KeptPrefixes::load_part(const Text& text) {
  if (text.keys.empty()) return false;
  size_t n_known = 0;
  {
    const std::lock_guard<TurnMutex> lock(engine_.passes().mutex);
    n_known = static_cast<size_t>(n_in_cache(text, text.keys.size()));
  }
  std::optional<std::vector<std::byte>> rows;
  if (n_known < text.keys.size()) rows = folder_.read(text.keys[n_known]);
  if (rows && rows->size() == block_bytes_ && append(text, n_known, *rows)) {
    const std::lock_guard<std::mutex> lock(mutex_);
    figures_.n_tokens_loaded += block_;
    return true;
  }
  touch(text.keys);
  return false;
}

// Appends a block to the longest beginning of the text that the cache has. The sequence stays idle
// until the prompt begins.
bool KeptPrefixes::append(const Text& text, size_t block, std::span<const std::byte> rows) {
  const std::lock_guard<TurnMutex> lock(engine_.passes().mutex);
  cache::Sequences& sequences = engine_.passes().sequences;
  const size_t first = block * static_cast<size_t>(block_);
  const std::span<const engine::Token> tokens = text.tokens;
  const std::span<const cache::Tag> tags = text.tags;
  const auto n = static_cast<size_t>(block_);
  // One token more than the cache has is asked for, as the last one is never taken over.
  const cache::Sequences::Begun begun =
      sequences.begin(tokens.first(first + 1), tags.first(first + 1), block_, text.owner);
  bool is_appended = false;
  if (begun.n_reused == static_cast<int>(first) && sequences.evict_until(block_)) {
    try {
      cache::append_rows(engine_.passes().kv, begun.sequence, tokens.subspan(first, n),
                         tags.subspan(first, n), rows);
      is_appended = true;
    } catch (const Error&) {
      // There is no memory for more: the prompt is computed.
    }
  }
  sequences.release(begun.sequence);
  return is_appended;
}

// Touches the files of a text, the first block last. Other blocks are of no use without the first,
// so it is to be removed last.
void KeptPrefixes::touch(const std::vector<std::string>& keys) {
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) folder_.touch(*key);
}

void KeptPrefixes::note(std::vector<engine::Token> tokens, int n_prompt, const Asker& asker) {
  Text text;
  text.tokens = std::move(tokens);
  const auto n_tokens = static_cast<int>(text.tokens.size());
  for (int i = 0; i < n_tokens; ++i) {
    text.tags.push_back(i < n_prompt ? engine_.passes().tag_at(i, n_prompt)
                                     : engine_.passes().tag_of(plan::Phase::kStep));
  }
  text.keys = keys_of(text.tokens, text.tags, asker.key);
  text.owner = asker.owner;
  const size_t n_fitting = options_.most_bytes / (block_bytes_ + 1024);
  if (text.keys.size() > n_fitting) text.keys.resize(n_fitting);
  if (text.keys.empty()) return;
  if (texts_.size() >= kMostTexts) texts_.pop_front();
  texts_.push_back(std::move(text));
}

bool KeptPrefixes::is_known(const std::string& key) const {
  if (folder_.has(key)) return true;
  const std::lock_guard<std::mutex> lock(mutex_);
  return under_way_.contains(key);
}

bool KeptPrefixes::has_room() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return blocks_.size() < kMostBlocksUnderWay;
}

bool KeptPrefixes::save_part() {
  while (!texts_.empty()) {
    Text& text = texts_.front();
    while (text.next < text.keys.size() && is_known(text.keys[text.next])) ++text.next;
    if (text.next == text.keys.size()) {
      touch(text.keys);
      texts_.pop_front();
      continue;
    }
    if (!has_room()) return false;
    Block block{text.keys[text.next], std::vector<std::byte>(block_bytes_)};
    {
      const std::lock_guard<TurnMutex> lock(engine_.passes().mutex);
      const auto n_tokens = (text.next + 1) * static_cast<size_t>(block_);
      const cache::Prefix found = engine_.passes().sequences.longest_prefix(
          std::span(text.tokens).first(n_tokens), text.tags, block_, text.owner);
      if (found.length < static_cast<int>(n_tokens)) {  // the rest was dropped, or never computed
        text.keys.resize(text.next);
        continue;
      }
      cache::copy_rows(engine_.passes().kv, found.sequence, found.length - block_, block_,
                       block.rows);
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    under_way_.insert(block.key);
    blocks_.push_back(std::move(block));
    changed_.notify_all();
    ++text.next;
    return true;
  }
  return false;
}

void KeptPrefixes::save_all(double most_seconds) {
  const auto start = std::chrono::steady_clock::now();
  while (!texts_.empty() && seconds_since(start) < most_seconds) {
    if (save_part()) continue;
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(10));
  }
}

KeptPrefixes::Figures KeptPrefixes::figures() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  Figures figures = figures_;
  figures.bytes = folder_.bytes();
  figures.most_bytes = folder_.most_bytes();
  figures.n_files = folder_.n_files();
  return figures;
}

// Runs the thread that writes.
void KeptPrefixes::write() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return !blocks_.empty() || is_stopping_; });
    if (blocks_.empty()) return;
    Block& block = blocks_.front();  // stays where it is, as blocks_ is a deque
    lock.unlock();
    std::string problem;
    try {
      folder_.write(block.key, block.rows);
    } catch (const std::exception& error) {  // a lack of memory too: nobody needs the file
      problem = error.what();
    }
    lock.lock();
    if (problem.empty()) {
      figures_.n_tokens_saved += block_;
    } else {
      ++figures_.n_failed;
      figures_.problem = problem;
    }
    under_way_.erase(block.key);
    blocks_.pop_front();
    changed_.notify_all();
    lock.unlock();
    on_room_();
    lock.lock();
  }
}

}  // namespace troika::server
