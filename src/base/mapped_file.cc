#include "base/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <mutex>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/huge_pages.h"
#include "base/os_error.h"
#include "base/threads/team.h"

namespace troika {
namespace {

// A signal handler gets no context, so this table of mappings is one of the few globals of the
// program. The handler only loads and stores lock-free atomics and calls mmap.
struct Guard {
  std::atomic<bool> taken{false};
  std::atomic<uintptr_t> begin{0};  // 0 while the entry describes no mapping
  std::atomic<uintptr_t> end{0};
  std::atomic<bool> damaged{false};
};
static_assert(std::atomic<uintptr_t>::is_always_lock_free);
static_assert(std::atomic<bool>::is_always_lock_free);

constexpr int kMaxMappings = 512;
Guard guards[kMaxMappings];
struct sigaction previous_action;
uintptr_t page_bytes;

void pass_on(int signal_number, siginfo_t* info, void* context) {
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    previous_action.sa_sigaction(signal_number, info, context);
  } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(signal_number);
  } else {
    // When the handler returns, the faulting instruction runs again and then ends the process as
    // usual.
    signal(SIGBUS, SIG_DFL);
  }
}

void on_bus_error(int signal_number, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (Guard& guard : guards) {
    const uintptr_t begin = guard.begin.load(std::memory_order_acquire);
    const uintptr_t end = guard.end.load(std::memory_order_acquire);
    if (begin == 0 || address < begin || address >= end) continue;
    guard.damaged.store(true, std::memory_order_release);
    // Whatever lies behind a lost page is lost too.
    const uintptr_t page = address & ~(page_bytes - 1);
    void* zeros = mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    errno = saved_errno;
    if (zeros != MAP_FAILED) return;
    break;
  }
  errno = saved_errno;
  pass_on(signal_number, info, context);
}

void install_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    struct sigaction action = {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    TROIKA_ASSERT(sigaction(SIGBUS, nullptr, &previous_action) == 0);
    TROIKA_ASSERT(sigaction(SIGBUS, &action, nullptr) == 0);
  });
}

// Returns an entry of the table for the handler, or -1 where the table is full.
int take_guard(const void* begin, size_t size) {
  for (int i = 0; i < kMaxMappings; ++i) {
    Guard& guard = guards[i];
    if (guard.taken.exchange(true, std::memory_order_acq_rel)) continue;
    const auto address = reinterpret_cast<uintptr_t>(begin);
    guard.damaged.store(false, std::memory_order_relaxed);
    guard.end.store(address + size, std::memory_order_release);
    guard.begin.store(address, std::memory_order_release);
    return i;
  }
  return -1;
}

void release_guard(int index) {
  guards[index].begin.store(0, std::memory_order_release);
  guards[index].end.store(0, std::memory_order_release);
  guards[index].taken.store(false, std::memory_order_release);
}

}  // namespace

MappedFile MappedFile::open(const std::string& path) {
  install_handler();
  MappedFile file;
  file.path_ = path;
  // Without O_NONBLOCK the call would wait for a writer if the path is a pipe.
  file.descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.descriptor_ < 0) throw_errno(path, "open it for reading");
  struct stat status = {};
  if (fstat(file.descriptor_, &status) != 0) throw_errno(path, "find its size");
  if (!S_ISREG(status.st_mode)) {
    throw Error(fmt::format("{}: it is not a regular file; give the path of a file.", path));
  }
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size == 0) return file;
  if (size > std::numeric_limits<size_t>::max() / 2) {
    throw Error(fmt::format("{}: the file is larger than this machine can address.", path));
  }
  std::byte* const place = reserve_aligned(size);  // aligned so that huge pages of the file fit
  void* begin = mmap(place, size, PROT_READ, MAP_SHARED | MAP_FIXED, file.descriptor_, 0);
  if (begin == MAP_FAILED) {
    munmap(place, size);
    throw_errno(path, "map it into memory");
  }
  file.begin_ = static_cast<const std::byte*>(begin);
  file.size_ = size;
  file.guard_ = take_guard(begin, size);
  if (file.guard_ < 0) {
    throw Error(fmt::format("{}: more than {} files are mapped at once; close some of them first.",
                            path, kMaxMappings));
  }
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this == &other) return *this;
  close();
  path_ = std::move(other.path_);
  begin_ = std::exchange(other.begin_, nullptr);
  size_ = std::exchange(other.size_, 0);
  descriptor_ = std::exchange(other.descriptor_, -1);
  guard_ = std::exchange(other.guard_, -1);
  copied_ = std::exchange(other.copied_, {});
  return *this;
}

MappedFile::~MappedFile() { close(); }

void MappedFile::close() noexcept {
  if (guard_ >= 0) release_guard(guard_);
  if (begin_ != nullptr) munmap(const_cast<std::byte*>(begin_), size_);
  if (descriptor_ >= 0) ::close(descriptor_);
  guard_ = -1;
  copied_.clear();
  begin_ = nullptr;
  size_ = 0;
  descriptor_ = -1;
}

bool MappedFile::comes_in_huge_pages() {
  constexpr size_t kPlaces = 8;
  constexpr size_t kSmallPage = 4096;
  const size_t n_pages = size_ / kHugePageBytes;
  if (n_pages == 0) return false;
  madvise(const_cast<std::byte*>(begin_), size_, MADV_HUGEPAGE);  // the system may ignore this
  const size_t n_places = std::min(kPlaces, n_pages);
  for (size_t i = 0; i < n_places; ++i) {
    const std::byte* const page = begin_ + i * n_pages / n_places * kHugePageBytes;
    for (size_t at = 0; at < kHugePageBytes; at += kSmallPage) {
      static_cast<void>(*static_cast<const volatile std::byte*>(page + at));
    }
  }
  // The kernel counts what is mapped, which is what was touched.
  return huge_bytes_within(begin_, size_) * 4 >= n_places * kHugePageBytes * 3;
}

void MappedFile::expect_few(Range range) { advise(range, MADV_RANDOM); }

void MappedFile::let_go(Range range) { advise(range, MADV_DONTNEED); }

// Tells the system something about the pages that hold nothing but this part.
void MappedFile::advise(Range range, int advice) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t begin = (range.begin + page - 1) / page * page;
  const size_t end = std::min(range.end, size_) / page * page;
  if (begin >= end) return;
  madvise(const_cast<std::byte*>(begin_) + begin, end - begin, advice);
}

bool MappedFile::copy_piece(size_t at, size_t size) {
  std::byte* piece = nullptr;
  try {
    piece = reserve_aligned(size);
  } catch (const std::bad_alloc&) {
    return false;
  }
  // The piece is aligned, so that moving it moves whole huge pages.
  void* const memory =
      mmap(piece, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (memory == MAP_FAILED) {
    munmap(piece, size);
    return false;
  }
  madvise(piece, size, MADV_HUGEPAGE);
  for (size_t done = 0; done < size;) {
    const ssize_t n = pread(descriptor_, piece + done, size - done, static_cast<off_t>(at + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {  // the file was cut short or became unreadable since it was opened
      guards[guard_].damaged.store(true, std::memory_order_release);
      munmap(piece, size);
      return false;
    }
    done += static_cast<size_t>(n);
  }
  mprotect(piece, size, PROT_READ);
  auto* const place = const_cast<std::byte*>(begin_) + at;
  if (mremap(piece, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, place) == MAP_FAILED) {
    munmap(piece, size);
    return false;
  }
  return true;
}

size_t MappedFile::copy_into_memory(Team& team, const std::vector<Range>& ranges) {
  constexpr size_t kPieceBytes = 16 * kHugePageBytes;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::vector<Range> pieces;
  for (const Range& range : ranges) {
    TROIKA_ASSERT(range.begin <= range.end && range.end <= size_);
    // What lies behind the range in its last page is copied, too.
    const size_t end = std::min((range.end + page - 1) / page * page, size_);
    for (size_t at = range.begin / kHugePageBytes * kHugePageBytes; at < end;) {
      const size_t size = std::min(kPieceBytes, end - at);
      pieces.push_back({at, at + size});
      at += size;
    }
  }
  std::atomic<size_t> next{0};
  std::vector<char> is_done(pieces.size());
  std::atomic<bool> is_over{false};
  team.run([&](int) {
    for (size_t i = next.fetch_add(1); i < pieces.size() && !is_over; i = next.fetch_add(1)) {
      if (copy_piece(pieces[i].begin, pieces[i].end - pieces[i].begin)) {
        is_done[i] = 1;
      } else {
        is_over = true;
      }
    }
  });
  size_t copied = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (is_done[i] == 0) continue;
    copied += pieces[i].end - pieces[i].begin;
    copied_.push_back(pieces[i]);
  }
  join_copied();
  return copied;
}

// Sorts the ranges, and joins ranges that touch.
void MappedFile::join_copied() {
  std::sort(copied_.begin(), copied_.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  std::vector<Range> joined;
  for (const Range& range : copied_) {
    if (!joined.empty() && range.begin <= joined.back().end) {
      joined.back().end = std::max(joined.back().end, range.end);
    } else {
      joined.push_back(range);
    }
  }
  copied_ = std::move(joined);
}

bool MappedFile::is_copied(Range range) const {
  return std::any_of(copied_.begin(), copied_.end(), [&](const Range& copied) {
    return copied.begin <= range.begin && range.end <= copied.end;
  });
}

bool MappedFile::set_writable(bool is_writable) {
  const int access = is_writable ? PROT_READ | PROT_WRITE : PROT_READ;
  return std::all_of(copied_.begin(), copied_.end(), [&](const Range& range) {
    // Each range begins with a page.
    return mprotect(const_cast<std::byte*>(begin_) + range.begin, range.end - range.begin,
                    access) == 0;
  });
}

bool MappedFile::damaged() const {
  if (size_ == 0) return false;
  if (guards[guard_].damaged.load(std::memory_order_acquire)) return true;
  if (is_copied()) return false;
  // The last page of a shortened file has a tail that reads as zeros without any signal, so its
  // size is asked for.
  struct stat status = {};
  return fstat(descriptor_, &status) != 0 || static_cast<uint64_t>(status.st_size) < size_;
}

}  // namespace troika
