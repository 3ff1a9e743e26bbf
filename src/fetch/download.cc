#include "fetch/download.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/bytes_text.h"
#include "base/cache_folder.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/os_error.h"
#include "fetch/url.h"

namespace troika::fetch {
namespace {

namespace fs = std::filesystem;

// A download is given up after kMostTries tries in a row that brought less than kWorthATry bytes.
constexpr int kMostTries = 5;
constexpr uint64_t kWorthATry = 1 << 20;

// Returns the hash of no bytes, of the kind that the hub names for the file.
Sha empty_hash(const HubFile& file) {
  if (file.git_sha1.empty() || !file.sha256.empty()) return Sha256();
  Sha1 hash;
  hash.add(fmt::format("blob {}", file.bytes));
  hash.add(std::string_view("\0", 1));
  return hash;
}

constexpr std::string_view kPartEnd = ".part";
constexpr std::string_view kSizeEnd = "-bytes";
constexpr size_t kHashDigits = 16;

std::string part_path(const HubFile& file, const std::string& target) {
  return fmt::format("{}.{}{}", target,
                     file.hash().empty() ? fmt::format("{}{}", file.bytes, kSizeEnd)
                                         : file.hash().substr(0, kHashDigits),
                     kPartEnd);
}

// Says whether part_path makes such a text of some file's hash or size.
bool is_part_key(std::string_view key) {
  if (key.ends_with(kSizeEnd)) {
    key.remove_suffix(kSizeEnd.size());
    return parse_number(key).has_value();
  }
  return key.size() == kHashDigits && key.find_first_not_of("0123456789abcdef") == key.npos;
}

// Throws Error where the disk of `folder`, which may not be there yet, lacks the bytes.
void check_space(const std::string& where, fs::path folder, uint64_t bytes) {
  std::error_code failure;
  while (!fs::exists(folder, failure) && folder.has_relative_path()) folder = folder.parent_path();
  const fs::space_info space = fs::space(folder, failure);
  if (failure || space.available >= bytes) return;
  throw Error(
      fmt::format("{}: {} more are needed on this disk, which has {} left. Free some "
                  "space, or set XDG_CACHE_HOME to a folder on another disk.",
                  where, bytes_text(bytes), bytes_text(space.available)));
}

class Download {
 public:
  Download(const HubFile& file, const std::string& target, const DownloadHooks& hooks)
      : file_(file),
        target_(target),
        hooks_(hooks),
        part_(std::make_unique<PartFile>(
            part_path(file, target),
            [this] {
              hooks_.note(fmt::format("another process is downloading {}; waiting for it",
                                      fs::path(target_).filename().string()));
            },
            hooks.progress, empty_hash(file))) {}

  std::unique_ptr<PartFile> run(const std::optional<FileStamp>& seen, const AskForBytes& ask) {
    // Another process that had the part before may have finished the file.
    const std::optional<FileStamp> now = stamp_of(target_);
    // Where no hash tells, a file that came meanwhile is the one: it was asked for at the same
    // time.
    const auto is_it = [&] {
      std::error_code ignored;
      return file_.hash().empty() ? fs::file_size(target_, ignored) == file_.bytes
                                  : is_same_file(target_, file_, hooks_.progress);
    };
    if (now && now != seen && is_it()) {
      part_->remove();
      return nullptr;
    }
    if (file_.hash().empty() || part_->bytes() > file_.bytes) part_->restart();
    check_space(target_, fs::path(target_).parent_path(), file_.bytes - part_->bytes());
    int n_tries = 0;
    uint64_t most = part_->bytes();  // what begins anew has brought little until it is beyond that
    while (part_->bytes() < file_.bytes) {
      std::string failure;
      const int status = ask_once(ask, &failure);
      if (part_->bytes() >= file_.bytes) break;
      if (part_->bytes() >= most + kWorthATry) n_tries = 0;
      most = std::max(most, part_->bytes());
      if (++n_tries == kMostTries) give_up(status, failure);
      hooks_.pause(n_tries);
    }
    check_hash();
    return std::move(part_);
  }

 private:
  // Adds the bytes of one answer to the part, or none of them. Returns the answer's status.
  int ask_once(const AskForBytes& ask, std::string* failure) {
    int status = 0;
    bool is_too_long = false;
    bool has_length = true;
    if (file_.hash().empty() && version_.empty()) part_->restart();
    const uint64_t offset = part_->bytes();
    PartFile::Mark before;
    has_changed_ = false;
    *failure = ask(offset, version_,
                   {[&](const HttpHead& head) {
                      status = head.status;
                      has_length =
                          status != 200 || parse_number(head.field("content-length")).has_value();
                      const bool is_wanted = begin(head, offset);
                      before = part_->mark();
                      return is_wanted;
                    },
                    [&](std::span<const std::byte> bytes) {
                      is_too_long = bytes.size() > file_.bytes - part_->bytes();
                      if (is_too_long) return false;
                      part_->append(bytes);
                      hooks_.progress(part_->bytes(), file_.bytes);
                      return true;
                    }});
    if (is_too_long) {
      part_->back_to(before);
      refuse_size("more bytes than the");
    }
    if (has_changed_) *failure = "the rest that the server has may be of another version";
    // A whole answer of another size is not the beginning of the file; it may be a page to sign in
    // to a network.
    if (!has_length && failure->empty() && part_->bytes() < file_.bytes) {
      *failure = fmt::format("the server sends a whole answer of {}", bytes_text(part_->bytes()));
      part_->back_to(before);
    }
    return status;
  }

  // Says whether the body is what was asked for.
  bool begin(const HttpHead& head, uint64_t offset) {
    if (head.status == 206) {
      const auto range = parse_content_range(head.field("content-range"));
      if (offset == 0 || !range || range->begin != offset) {
        throw Error(
            fmt::format("{}: the server sends other bytes than those it was asked for.", target_));
      }
      if (range->total.value_or(file_.bytes) != file_.bytes) {
        refuse_size(fmt::format("a file of {} bytes, not", *range->total));
      }
      if (!file_.hash().empty() || is_of_version(head, version_)) return true;
      // The server does not know If-Range, and only the next try can ask for the first bytes.
      has_changed_ = true;
      version_.clear();
      return false;
    }
    if (head.status == 416) refuse_size("fewer bytes than the");
    if (head.status != 200) return false;
    const auto length = parse_number(head.field("content-length"));
    if (length && *length != file_.bytes) {
      refuse_size(fmt::format("a file of {} bytes, not", *length));
    }
    // A server that knows no ranges begins at the beginning. What has come is given up only for a
    // file of the right size.
    if (offset > 0 && !length) {
      throw Error(fmt::format(
          "{}: the server does not go on after the {} that are here, and does not say how much it "
          "sends instead. Try again later, or remove {} to begin anew.",
          target_, bytes_text(offset), part_->path()));
    }
    if (offset > 0) part_->restart();
    // A hash tells versions apart for certain; servers of the same file may have several tags for
    // it.
    if (file_.hash().empty()) version_ = version_of(head);
    return true;
  }

  // Refuses an answer. What earlier answers brought stays, because this answer may come from a page
  // to sign in to a network, not from the hub.
  [[noreturn]] void refuse_size(const std::string& what) {
    throw Error(fmt::format(
        "{}: the server sends {} {} that the list of files promises. Try again later; the file may "
        "just have been replaced.",
        target_, what, file_.bytes));
  }

  void check_hash() {
    if (file_.hash().empty()) {
      hooks_.note(fmt::format("the hub knows no hash of {}: only its size was checked",
                              fs::path(target_).filename().string()));
      return;
    }
    const std::string hash = part_->hash();
    if (hash == file_.hash()) return;
    part_->remove();
    throw Error(fmt::format(
        "{}: the bytes that came have the {} {}, not {} as the list of files says. They were "
        "removed; try again, and if this comes again something on the way changes them.",
        target_, file_.sha256.empty() ? "SHA-1 of git" : "SHA-256", hash, file_.hash()));
  }

  [[noreturn]] void give_up(int status, const std::string& failure) {
    std::string why = failure.empty() ? "the answer ends too early" : failure;
    if (status >= 500) why = fmt::format("the server answers with {}", status);
    throw Error(
        fmt::format("{}: the download broke off {} times, the last time because: {}. {} of "
                    "{} are here; {}.",
                    target_, kMostTries, why, bytes_text(part_->bytes()), bytes_text(file_.bytes),
                    file_.hash().empty()
                        ? "the same command begins anew, because the hub knows no hash of the file"
                        : "the same command goes on there"));
  }

  const HubFile& file_;
  const std::string& target_;
  const DownloadHooks& hooks_;
  std::unique_ptr<PartFile> part_;
  std::string version_;  // of what has come (version_of), where no hash tells
  bool has_changed_ = false;
};

void sleep_before(int n_tries) {
  std::this_thread::sleep_for(std::chrono::milliseconds(100 << n_tries));
}

}  // namespace

std::optional<FileStamp> stamp_of(const std::string& path) {
  struct stat state = {};
  if (::stat(path.c_str(), &state) != 0) return std::nullopt;
  return FileStamp{state.st_dev, state.st_ino, state.st_mtim.tv_sec, state.st_mtim.tv_nsec};
}

std::unique_ptr<PartFile> download(const HubFile& file, const std::string& target,
                                   const std::optional<FileStamp>& seen, const AskForBytes& ask,
                                   const DownloadHooks& hooks) {
  make_kept_folder(fs::path(target).parent_path().string());
  DownloadHooks with_pause = hooks;
  if (!with_pause.pause) with_pause.pause = sleep_before;
  return Download(file, target, with_pause).run(seen, ask);
}

void remove_old_parts(const std::string& target) {
  const std::string begin = fs::path(target).filename().string() + ".";
  std::error_code failure;
  std::vector<std::string> parts;
  for (auto entry = fs::directory_iterator(fs::path(target).parent_path(), failure);
       !failure && entry != fs::directory_iterator(); entry.increment(failure)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(begin) || !name.ends_with(kPartEnd)) continue;
    if (is_part_key(std::string_view(name).substr(
            begin.size(), name.size() - std::min(name.size(), begin.size() + kPartEnd.size())))) {
      parts.push_back(entry->path().string());
    }
  }
  for (const std::string& part : parts) PartFile::remove_unused(part);
}

void check_room(const std::vector<HubFile>& files, const std::vector<std::string>& targets) {
  uint64_t missing = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    const auto bytes_of = [](const std::string& path) -> uint64_t {
      std::error_code failure;
      const uint64_t bytes = fs::file_size(path, failure);
      return failure ? 0 : bytes;
    };
    const HubFile& file = files[i];
    const bool has_hash = !file.hash().empty();
    if (has_hash && bytes_of(targets[i]) == file.bytes) continue;
    const uint64_t here = has_hash ? bytes_of(part_path(file, targets[i])) : 0;
    missing += file.bytes - std::min(here, file.bytes);
  }
  const fs::path folder = fs::path(targets.front()).parent_path();
  check_space(folder.string(), folder, missing);
}

bool is_same_file(const std::string& path, const HubFile& file, const ProgressFunction& progress) {
  std::error_code failure;
  const uint64_t bytes = fs::file_size(path, failure);
  if (failure || bytes != file.bytes) return false;
  if (bytes == 0) return true;
  if (file.hash().empty()) return false;
  const MappedFile map = MappedFile::open(path);
  Sha hash = empty_hash(file);
  constexpr size_t kPiece = 1 << 20;
  for (size_t begin = 0; begin < map.bytes().size(); begin += kPiece) {
    hash.add(map.bytes().subspan(begin, std::min(kPiece, map.bytes().size() - begin)));
    progress(begin, bytes);
  }
  return !map.damaged() && hash.hex() == file.hash();
}

}  // namespace troika::fetch
