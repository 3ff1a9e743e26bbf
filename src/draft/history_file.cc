#include "draft/history_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/os_error.h"

namespace troika::draft {
namespace {

constexpr char kMagic[] = {'T', 'R', 'O', 'I', 'K', 'A', 'H', 'I'};
constexpr uint32_t kVersion = 1;
constexpr unsigned kRights = 0600;  // answers are for nobody else to read
constexpr size_t kHeaderBytes = 32;
constexpr size_t kRecordBytes = 16;  // the bytes of a record without its tokens
// A file has the most bytes where each record has one token.
constexpr size_t kMostBytes =
    kHeaderBytes + kMostHistoryTokens * (kRecordBytes + sizeof(uint32_t)) + (1 << 20);

template <typename T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

template <typename T>
void append_value(T value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
T value_at(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

uint64_t record_checksum(uint32_t n_tokens, std::span<const std::byte> tokens) {
  Fnv hash;
  hash.add(bytes_of(n_tokens));
  hash.add(tokens);
  return hash.value();
}

std::string record_of(std::span<const Token> text) {
  std::string record;
  const auto n_tokens = static_cast<uint32_t>(text.size());
  append_value(n_tokens, &record);
  append_value(uint32_t{0}, &record);
  append_value(record_checksum(n_tokens, std::as_bytes(text)), &record);
  record.append(reinterpret_cast<const char*>(text.data()), text.size_bytes());
  return record;
}

size_t n_tokens_of(const Texts& texts) {
  size_t n = 0;
  for (const std::vector<Token>& text : texts) n += text.size();
  return n;
}

// A regular file, which is locked as long as this object lives.
class LockedFile {
 public:
  // Where the file is missing, kRead leaves this object without an open file, and kAppend makes the
  // file.
  enum class Purpose { kRead, kAppend };
  LockedFile(const std::string& path, Purpose purpose) : LockedFile(path) {
    // A program that rewrites the history puts another file in this one's place: then that file is
    // locked instead.
    constexpr int kMostTries = 1000;
    for (int i = 0; i < kMostTries; ++i) {
      if (!try_open(purpose)) return;
      struct stat here, there;
      if (::fstat(descriptor_, &here) != 0) throw_errno(path_, "be examined");
      if (!S_ISREG(here.st_mode)) {
        throw Error(path_ + ": is no regular file. Give ‹history› another name.");
      }
      while (::flock(descriptor_, purpose == Purpose::kRead ? LOCK_SH : LOCK_EX) != 0) {
        if (errno != EINTR) throw_errno(path_, "be locked");
      }
      const bool is_there = ::stat(path_.c_str(), &there) == 0;
      if (is_there && here.st_ino == there.st_ino && here.st_dev == there.st_dev) return;
      close();
    }
    throw Error(path_ + ": other programs replace it all the time; try again.");
  }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;
  ~LockedFile() { close(); }

  bool is_open() const { return descriptor_ >= 0; }

  std::vector<std::byte> read_all() const {
    struct stat status;
    if (::fstat(descriptor_, &status) != 0) throw_errno(path_, "be examined");
    if (static_cast<uint64_t>(status.st_size) > kMostBytes) {
      throw Error(fmt::format(
          "{}: has {} bytes, more than a history can have. Give ‹history› another name.", path_,
          static_cast<uint64_t>(status.st_size)));
    }
    std::vector<std::byte> bytes(static_cast<size_t>(status.st_size));
    size_t n = 0;
    while (n < bytes.size()) {
      const ssize_t got =
          ::pread(descriptor_, bytes.data() + n, bytes.size() - n, static_cast<off_t>(n));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw_errno(path_, "be read");
      if (got == 0) break;
      n += static_cast<size_t>(got);
    }
    bytes.resize(n);
    return bytes;
  }

  // Replaces everything behind `offset`. A write that fails leaves the file as it was up to
  // `offset`.
  void replace_from(size_t offset, const std::string& bytes) const {
    if (::ftruncate(descriptor_, static_cast<off_t>(offset)) != 0) throw_errno(path_, "be cut");
    for (size_t n = 0; n < bytes.size();) {
      const ssize_t put =
          ::pwrite(descriptor_, bytes.data() + n, bytes.size() - n, static_cast<off_t>(offset + n));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) {
        const int problem = errno;
        if (::ftruncate(descriptor_, static_cast<off_t>(offset)) != 0) {
          // The next reader drops what a failed write has left.
        }
        errno = problem;
        throw_errno(path_, "be written");
      }
      n += static_cast<size_t>(put);
    }
  }

 private:
  // The other constructor begins with this one, so that the file is closed where it throws.
  explicit LockedFile(const std::string& path) : path_(path) {}

  bool try_open(Purpose purpose) {
    const int flags = purpose == Purpose::kRead ? O_RDONLY : O_RDWR | O_CREAT;
    // With O_NONBLOCK, a pipe in the file's place makes nobody wait.
    descriptor_ = ::open(path_.c_str(), flags | O_CLOEXEC | O_NONBLOCK, kRights);
    if (descriptor_ >= 0) return true;
    if (purpose == Purpose::kRead && errno == ENOENT) return false;
    throw_errno(path_, "be opened");
  }
  void close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }

  const std::string& path_;
  int descriptor_ = -1;
};

}  // namespace

uint64_t identity_of_tokens(const std::vector<std::string>& tokens) {
  Fnv hash;
  hash.add(static_cast<uint64_t>(tokens.size()));
  for (const std::string& token : tokens) {
    hash.add(static_cast<uint64_t>(token.size()));
    hash.add(std::string_view(token));
  }
  return hash.value();
}

HistoryFile::HistoryFile(std::string path, uint64_t tokenizer, int n_vocab)
    : path_(std::move(path)), tokenizer_(tokenizer), n_vocab_(n_vocab) {
  TROIKA_ASSERT(n_vocab >= 1);
}

std::string HistoryFile::header() const {
  std::string header(kMagic, sizeof kMagic);
  append_value(kVersion, &header);
  append_value(uint32_t{0}, &header);
  append_value(tokenizer_, &header);
  append_value(hash_of(std::as_bytes(std::span(header))), &header);
  return header;
}

Texts HistoryFile::parse(std::span<const std::byte> bytes, size_t* n_valid,
                         std::string* problem) const {
  *n_valid = 0;
  if (bytes.empty()) return {};
  const size_t n_magic = std::min(bytes.size(), sizeof kMagic);
  if (std::memcmp(bytes.data(), kMagic, n_magic) != 0) {
    throw Error(fmt::format("{}: is no history of drafts. Give ‹history› another name.", path_));
  }
  const auto drop = [&](size_t from) {
    if (problem == nullptr) return;
    *problem = fmt::format("{}: the last {} bytes make no sense and were dropped.", path_,
                           bytes.size() - from);
  };
  const bool is_whole =
      bytes.size() >= kHeaderBytes &&
      value_at<uint64_t>(bytes, kHeaderBytes - 8) == hash_of(bytes.first(kHeaderBytes - 8));
  if (!is_whole) {  // nothing can be said of what follows
    drop(0);
    return {};
  }
  if (const auto version = value_at<uint32_t>(bytes, 8); version != kVersion) {
    throw Error(fmt::format("{}: has version {} of the format; this program knows {}. Remove it.",
                            path_, version, kVersion));
  }
  if (value_at<uint64_t>(bytes, 16) != tokenizer_) {
    throw Error(
        fmt::format("{}: is the history of a model with another tokenizer. Use another name or "
                    "remove the file.",
                    path_));
  }
  Texts texts;
  size_t at = kHeaderBytes;
  while (bytes.size() - at >= kRecordBytes) {
    const auto n_tokens = value_at<uint32_t>(bytes, at);
    const size_t room = (bytes.size() - at - kRecordBytes) / sizeof(Token);
    if (n_tokens == 0 || n_tokens > room) break;
    const auto tokens = bytes.subspan(at + kRecordBytes, n_tokens * sizeof(Token));
    if (value_at<uint64_t>(bytes, at + 8) != record_checksum(n_tokens, tokens)) break;
    std::vector<Token> text(n_tokens);
    std::memcpy(text.data(), tokens.data(), tokens.size());
    const bool are_tokens =
        std::all_of(text.begin(), text.end(), [&](Token t) { return t >= 0 && t < n_vocab_; });
    if (!are_tokens) break;
    texts.push_back(std::move(text));
    at += kRecordBytes + tokens.size();
  }
  if (at < bytes.size()) drop(at);
  *n_valid = at;
  return texts;
}

Texts HistoryFile::read(std::string* problem) const {
  if (problem != nullptr) problem->clear();
  const LockedFile file(path_, LockedFile::Purpose::kRead);
  if (!file.is_open()) return {};
  size_t n_valid = 0;
  return parse(file.read_all(), &n_valid, problem);
}

// Keeps the newest texts only, and leaves room so that the next ones can be appended for a while.
void HistoryFile::rewrite(Texts texts, std::span<const Token> text) const {
  size_t n_tokens = n_tokens_of(texts);
  size_t first = 0;
  while (first < texts.size() && n_tokens + text.size() > kMostHistoryTokens / 2) {
    n_tokens -= texts[first++].size();
  }
  AtomicFile file(path_, kRights);
  std::string bytes = header();
  for (size_t i = first; i < texts.size(); ++i) bytes += record_of(texts[i]);
  file.write(bytes + record_of(text));
  file.commit();
}

void HistoryFile::append(std::span<const Token> text) const {
  if (text.empty()) return;
  text = text.last(std::min(text.size(), kMostHistoryTokens / 2));
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  std::error_code failure;
  if (!folder.empty()) std::filesystem::create_directories(folder, failure);
  if (failure) {
    throw Error(
        fmt::format("{}: the folder cannot be made: {}.", folder.string(), failure.message()));
  }
  const LockedFile file(path_, LockedFile::Purpose::kAppend);
  const std::vector<std::byte> bytes = file.read_all();
  size_t n_valid = 0;
  Texts texts = parse(bytes, &n_valid, nullptr);
  if (n_tokens_of(texts) + text.size() > kMostHistoryTokens) {
    rewrite(std::move(texts), text);
  } else {
    file.replace_from(n_valid, (n_valid == 0 ? header() : std::string()) + record_of(text));
  }
}

}  // namespace troika::draft
