#include "base/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <limits>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/os_error.h"

namespace troika {
namespace {

// A signal handler gets no context, so this table is one of the few globals of the program. The
// handler only loads and stores lock-free atomics and calls mmap.
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
    // The faulting instruction runs again when we return and then ends the process as usual.
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

// Returns -1 where the table is full.
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
  void* begin = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.descriptor_, 0);
  if (begin == MAP_FAILED) throw_errno(path, "map it into memory");
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
  return *this;
}

MappedFile::~MappedFile() { close(); }

void MappedFile::close() noexcept {
  if (guard_ >= 0) release_guard(guard_);
  if (begin_ != nullptr) munmap(const_cast<std::byte*>(begin_), size_);
  if (descriptor_ >= 0) ::close(descriptor_);
  guard_ = -1;
  begin_ = nullptr;
  size_ = 0;
  descriptor_ = -1;
}

bool MappedFile::damaged() const {
  if (size_ == 0) return false;
  if (guards[guard_].damaged.load(std::memory_order_acquire)) return true;
  // The tail of the last page that a shortened file still has reads as zeros without any signal.
  struct stat status = {};
  return fstat(descriptor_, &status) != 0 || static_cast<uint64_t>(status.st_size) < size_;
}

}  // namespace troika
