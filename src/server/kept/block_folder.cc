#include "server/kept/block_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <new>
#include <span>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/os_error.h"
#include "base/side_file.h"

namespace troika::server {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "prefix-";
constexpr size_t kKeyLength = 64;
constexpr mode_t kForItsOwner = 0600;
constexpr char kMagic[] = {'T', 'R', 'O', 'I', 'K', 'A', 'K', 'V'};

// The header before a file's content. Its numbers are little-endian, like all machines that this
// program runs on.
struct Header {
  char magic[sizeof kMagic];
  char key[kKeyLength];
  uint64_t n_bytes;   // the content's bytes
  uint64_t checksum;  // the checksum of the key and the content
};
static_assert(sizeof(Header) == sizeof kMagic + kKeyLength + 16);

// Hashes eight bytes at a time: a prefix has millions of bytes, and a client waits for it.
uint64_t checksum_of(std::string_view key, std::span<const std::byte> content) {
  Fnv hash;
  hash.add(key);
  uint64_t sum = hash.value();
  constexpr uint64_t kOdd = 0x9E3779B97F4A7C15u;
  size_t at = 0;
  for (; at + 8 <= content.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, content.data() + at, 8);
    sum = (sum ^ word) * kOdd;
    sum ^= sum >> 29;
  }
  Fnv rest;
  rest.add(sum);
  rest.add(content.subspan(at));
  return rest.value();
}

bool is_key(std::string_view text) {
  return text.size() == kKeyLength &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

// Returns the key in a file's name; empty if the file is none of this folder's.
std::string key_in(const std::string& name) {
  if (!name.starts_with(kPrefix)) return {};
  const std::string key = name.substr(kPrefix.size());
  return is_key(key) ? key : std::string();
}

// Says whether a killed process left the file behind before giving it its final name.
bool is_left_over(const std::string& name) {
  return name.starts_with(kPrefix) && name.size() > kPrefix.size() + kKeyLength &&
         name.substr(kPrefix.size() + kKeyLength).starts_with(".partial-");
}

}  // namespace

BlockFolder::BlockFolder(std::string path, uint64_t most_bytes)
    : path_(std::move(path)), most_bytes_(most_bytes) {
  if (::mkdir(path_.c_str(), 0700) != 0 && errno != EEXIST) throw_errno(path_, "make this folder");
  std::error_code ignored;
  if (!fs::is_directory(path_, ignored)) {
    throw Error(fmt::format("{}: it is no folder. Name one for what is kept.", path_));
  }
  lock_folder();
  try {
    look_around();
  } catch (...) {
    ::close(lock_);
    throw;
  }
}

BlockFolder::~BlockFolder() { ::close(lock_); }

// Locks the folder for this process. The lock ends with the process, however that ends.
void BlockFolder::lock_folder() {
  const std::string file = path_ + "/lock";
  lock_ = ::open(file.c_str(), O_CREAT | O_RDWR | O_CLOEXEC | O_NOFOLLOW, kForItsOwner);
  if (lock_ < 0) throw_errno(file, "open it");
  if (::flock(lock_, LOCK_EX | LOCK_NB) == 0) return;
  ::close(lock_);
  throw Error(
      fmt::format("{}: another server keeps its prefixes there. Give each a folder of its "
                  "own.",
                  path_));
}

void BlockFolder::look_around() {
  struct Seen {
    fs::file_time_type when;
    std::string key;
  };
  std::vector<Seen> seen;
  std::error_code failure;
  for (auto entry = fs::directory_iterator(path_, failure);
       !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    const std::string name = entry->path().filename().string();
    std::error_code of_one;
    if (is_left_over(name)) fs::remove(entry->path(), of_one);
    const std::string key = key_in(name);
    if (key.empty() || !entry->is_regular_file(of_one)) continue;
    const uint64_t bytes = entry->file_size(of_one);
    if (of_one) continue;
    files_[key] = {bytes, 0};
    bytes_ += bytes;
    seen.push_back({entry->last_write_time(of_one), key});
  }
  if (failure) throw Error(fmt::format("{}: cannot be listed: {}.", path_, failure.message()));
  std::sort(seen.begin(), seen.end(), [](const Seen& a, const Seen& b) {
    return a.when != b.when ? a.when < b.when : a.key < b.key;
  });
  for (const Seen& one : seen) note_use(files_.find(one.key));
  make_room(0);
}

std::string BlockFolder::path_of(const std::string& key) const {
  return fmt::format("{}/{}{}", path_, kPrefix, key);
}

bool BlockFolder::has(const std::string& key) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return files_.contains(key);
}

uint64_t BlockFolder::bytes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return bytes_;
}

size_t BlockFolder::n_files() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return files_.size();
}

std::optional<std::vector<std::byte>> BlockFolder::read(const std::string& key) {
  if (!has(key)) return std::nullopt;
  std::string ignored;
  const SideFile file(path_of(key), &ignored);
  Header header = {};
  const uint64_t size = file.bytes();  // 0 for what is no regular file
  if (size >= sizeof header && file.read(0, std::as_writable_bytes(std::span(&header, 1))) &&
      std::memcmp(header.magic, kMagic, sizeof kMagic) == 0 &&
      std::memcmp(header.key, key.data(), kKeyLength) == 0 &&
      header.n_bytes == size - sizeof header) {
    std::vector<std::byte> content(header.n_bytes);
    if (file.read(sizeof header, content) && checksum_of(key, content) == header.checksum) {
      return content;
    }
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (const auto found = files_.find(key); found != files_.end()) remove(found);
  return std::nullopt;
}

void BlockFolder::write(const std::string& key, std::span<const std::byte> content) {
  TROIKA_ASSERT(is_key(key));
  const uint64_t bytes = sizeof(Header) + content.size();
  if (bytes > most_bytes_) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    make_room(bytes);
  }
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  std::memcpy(header.key, key.data(), kKeyLength);
  header.n_bytes = content.size();
  header.checksum = checksum_of(key, content);
  AtomicFile file(path_of(key), kForItsOwner);
  file.write(std::as_bytes(std::span(&header, 1)));
  file.write(content);
  file.commit();
  const std::lock_guard<std::mutex> lock(mutex_);
  try {
    const auto entry = files_.try_emplace(key).first;
    note_use(entry);
    bytes_ += bytes - entry->second.bytes;
    entry->second.bytes = bytes;
  } catch (const std::bad_alloc&) {
    // What make_room() does not know of would take room for ever. An earlier file of this key has
    // the same content and keeps its place.
    const auto found = files_.find(key);
    if (found == files_.end() || found->second.bytes == 0) {
      ::unlink(path_of(key).c_str());
      if (found != files_.end()) files_.erase(found);
    }
    throw;
  }
}

// Notes the use in the file's time too, so that later processes know it.
void BlockFolder::touch(const std::string& key) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = files_.find(key);
  if (found == files_.end()) return;
  note_use(found);
  (void)::utimensat(AT_FDCWD, path_of(key).c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
}

// note_use(), remove() and make_room() REQUIRE that the mutex is held.
void BlockFolder::note_use(Files::iterator file) {
  by_use_.emplace(now_ + 1, file);
  by_use_.erase(file->second.last);
  file->second.last = ++now_;
}

void BlockFolder::remove(Files::iterator file) {
  ::unlink(path_of(file->first).c_str());
  bytes_ -= file->second.bytes;
  by_use_.erase(file->second.last);
  files_.erase(file);
}

void BlockFolder::make_room(uint64_t bytes) {
  while (bytes_ + bytes > most_bytes_ && !by_use_.empty()) remove(by_use_.begin()->second);
}

}  // namespace troika::server
