#include "lanes/disk/disk_lane.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <liburing.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/os_error.h"

namespace troika::lanes {
namespace {

// One read of the kernel transfers less than 2 GiB. A longer request is read in several steps, each
// of which goes on where the last one ended.
constexpr uint64_t kMostBytes = 1u << 30;

class ReadTask : public Executable {
 public:
  ReadTask() : Executable(0) {}
};

bool is_aligned(uint64_t n) { return n % DiskLane::kAlignment == 0; }

}  // namespace

struct DiskLane::Ring {
  ~Ring() {
    if (is_made) io_uring_queue_exit(&ring);
  }
  io_uring ring{};
  bool is_made = false;
  std::byte first_byte{};  // is what the ring reads when it is tried
};

DiskLane::DiskLane(const DiskOptions& options) : options_(options) {
  TROIKA_ASSERT(options.depth > 0);
  info_.name = "disk";
  info_.capabilities = kRead;
  try {
    open_files();
    for (int i = 0; i < options_.depth; ++i) {
      reads_.push_back(std::make_unique<Read>());
      free_reads_.push_back(reads_.back().get());
      tasks_.push_back(std::make_unique<Task>());
      free_tasks_.push_back(tasks_.back().get());
    }
    start_ring();
    thread_ = std::thread([this] { ring_ != nullptr ? reap() : read_in_turn(); });
  } catch (...) {
    for (const OpenFile& file : files_) {
      ::close(file.buffered);
      if (file.direct >= 0) ::close(file.direct);
    }
    throw;
  }
}

DiskLane::~DiskLane() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    if (ring_ != nullptr) {
      // An entry without a read wakes the thread. A full queue means that reads are under way, and
      // the thread looks at `stop_` when they end.
      if (io_uring_sqe* const entry = io_uring_get_sqe(&ring_->ring)) {
        io_uring_prep_nop(entry);
        io_uring_sqe_set_data(entry, nullptr);
        submit_entries();
      }
    }
  }
  wake_.notify_all();
  thread_.join();
  for (const OpenFile& file : files_) {
    ::close(file.buffered);
    if (file.direct >= 0) ::close(file.direct);
  }
}

void DiskLane::open_files() {
  for (size_t i = 0; i < options_.files.size(); ++i) {
    const std::string& path = options_.files[i];
    OpenFile file;
    file.path = i < options_.names.size() ? options_.names[i] : path;
    file.buffered = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file.buffered < 0) throw_errno(file.path, "be opened to stream from it");
    if (options_.may_read_directly) {
      file.direct = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT);
      if (file.direct < 0) {
        notes_.push_back(fmt::format(
            "{}: the file system does not read past the page cache ({}), so reads go through it.",
            file.path, std::strerror(errno)));
      }
    }
    files_.push_back(file);
  }
}

// Makes the ring and lets it read a byte. A sandbox may allow the one and forbid the other, and old
// kernels have rings that do not know such reads. Returns 0, or why there is no ring, as -errno.
int DiskLane::try_ring() {
  io_uring* const ring = &ring_->ring;
  // The queue has one entry more than reads, so that the entry that ends the thread finds room.
  int result = io_uring_queue_init(static_cast<unsigned>(options_.depth) + 1, ring, 0);
  if (result < 0) return result;
  ring_->is_made = true;
  if (files_.empty()) return 0;
  io_uring_prep_read(io_uring_get_sqe(ring), files_.front().buffered, &ring_->first_byte, 1, 0);
  do {
    result = io_uring_submit(ring);
  } while (result == -EINTR || result == -EAGAIN);
  if (result < 0) return result;
  io_uring_cqe* entry = nullptr;
  do {
    result = io_uring_wait_cqe(ring, &entry);
  } while (result == -EINTR);
  if (result < 0) return result;
  result = entry->res;
  io_uring_cqe_seen(ring, entry);
  return std::min(result, 0);
}

void DiskLane::start_ring() {
  if (!options_.may_use_io_uring) return;
  ring_ = std::make_unique<Ring>();
  if (const int result = try_ring(); result < 0) {
    ring_ = nullptr;
    notes_.push_back(fmt::format(
        "io_uring cannot be used here ({}), so a thread reads one block after the other.",
        std::strerror(-result)));
  }
}

std::unique_ptr<Executable> DiskLane::build(const Subgraph& subgraph, plan::Shape,
                                            const weights::Store&, const Buffers&) {
  throw Error(
      fmt::format("The disk computes nothing, but '{}' was placed on it. Place it on "
                  "another lane.",
                  subgraph.name));
}

std::unique_ptr<Executable> DiskLane::make_read() const { return std::make_unique<ReadTask>(); }

std::vector<std::string> DiskLane::notes() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return notes_;
}

std::string DiskLane::problem() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return problem_;
}

uint64_t DiskLane::n_direct_reads() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return n_direct_;
}

uint64_t DiskLane::n_cached_reads() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return n_cached_;
}

void DiskLane::reserve(size_t n_tasks, size_t n_reads) {
  const std::lock_guard<std::mutex> lock(mutex_);
  make_room(n_tasks, n_reads);
}

// Makes room for tasks and reads beside those that are under way, which may have to wait again.
void DiskLane::make_room(size_t n_tasks, size_t n_reads) {
  waiting_.reserve(waiting_.size() + n_reads + reads_.size());
  if (free_tasks_.size() >= n_tasks) return;
  free_tasks_.reserve(tasks_.size() + n_tasks);
  tasks_.reserve(tasks_.size() + n_tasks);
  while (free_tasks_.size() < n_tasks) {
    tasks_.push_back(std::make_unique<Task>());
    free_tasks_.push_back(tasks_.back().get());
  }
}

void DiskLane::submit(const Executable&, const Run& run, Completion& completion) {
  if (run.reads.empty()) {
    completion.finished(Status::kDone);
    return;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  make_room(1, run.reads.size());
  Task* const task = free_tasks_.back();
  free_tasks_.pop_back();
  *task = {&completion, run.reads.size(), false};
  for (const ReadRequest& request : run.reads) {
    TROIKA_ASSERT(request.file >= 0 && static_cast<size_t>(request.file) < files_.size());
    waiting_.push_back({task, request, 0});
  }
  if (ring_ != nullptr) {
    start_waiting_reads();
  } else {
    wake_.notify_one();
  }
}

bool DiskLane::can_read_directly(const Read& read) const {
  const ReadRequest& request = read.request;
  const OpenFile& file = files_[static_cast<size_t>(request.file)];
  return file.direct >= 0 && !file.refuses_direct && is_aligned(request.offset + read.n_done) &&
         is_aligned(request.bytes - read.n_done) &&
         is_aligned(reinterpret_cast<uintptr_t>(request.to) + read.n_done);
}

int DiskLane::descriptor_for(Read* read) {
  const OpenFile& file = files_[static_cast<size_t>(read->request.file)];
  read->is_direct = can_read_directly(*read);
  ++(read->is_direct ? n_direct_ : n_cached_);
  return read->is_direct ? file.direct : file.buffered;
}

void DiskLane::start_waiting_reads() {
  int n_started = 0;
  while (!waiting_.empty() && !free_reads_.empty()) {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_->ring);
    if (entry == nullptr) break;  // the next end of a read comes here again
    Read* const read = free_reads_.back();
    free_reads_.pop_back();
    *read = waiting_.front();
    waiting_.pop_front();
    std::byte* const to = read->request.to + read->n_done;
    const auto bytes =
        static_cast<unsigned>(std::min(read->request.bytes - read->n_done, kMostBytes));
    const uint64_t offset = read->request.offset + read->n_done;
    io_uring_prep_read(entry, descriptor_for(read), to, bytes, offset);
    io_uring_sqe_set_data(entry, read);
    ++n_started;
  }
  if (n_started > 0) submit_entries();
}

// Hands over all entries. The kernel takes only those up to one that it refuses, and what it left
// would wait for ever where nothing else is under way.
void DiskLane::submit_entries() {
  while (io_uring_sq_ready(&ring_->ring) > 0) {
    const int n_submitted = io_uring_submit(&ring_->ring);
    TROIKA_ASSERT(n_submitted >= 0 || n_submitted == -EINTR || n_submitted == -EAGAIN);
  }
}

void DiskLane::note_problem(const Read& read, int error_number) {
  const ReadRequest& request = read.request;
  const std::string& path = files_[static_cast<size_t>(request.file)].path;
  if (error_number != 0) {
    problem_ = fmt::format("{}: {} bytes from byte {} on cannot be read: {}", path, request.bytes,
                           request.offset, explain_errno(error_number));
  } else {
    problem_ = fmt::format(
        "{}: the file ends at byte {}, but bytes up to {} are wanted; it was cut "
        "short, so restore it",
        path, request.offset + read.n_done, request.offset + request.bytes);
  }
}

// Says whether the file system refused to read past the page cache. Some take the flag when a file
// is opened, and some want larger pages than the usual ones.
bool DiskLane::is_refused(const Read& read, int64_t result) {
  if (!read.is_direct || (result != -EINVAL && result != -EOPNOTSUPP)) return false;
  OpenFile& file = files_[static_cast<size_t>(read.request.file)];
  --n_direct_;
  if (!std::exchange(file.refuses_direct, true)) {
    notes_.push_back(fmt::format(
        "{}: the file system refused to read past the page cache ({}), so reads go through it.",
        file.path, std::strerror(static_cast<int>(-result))));
  }
  return true;
}

bool DiskLane::take_result(Read* read, int64_t result) {
  if (options_.spoil) result = options_.spoil(read->request, result);
  if (result > 0) read->n_done += static_cast<uint64_t>(result);
  if (result >= 0 && read->n_done >= read->request.bytes) return true;
  if (is_refused(*read, result)) return false;
  const bool is_passing = result == -EINTR || result == -EAGAIN;
  if (result <= 0 && !is_passing) {
    note_problem(*read, static_cast<int>(-result));
    read->task->has_failed = true;
    return true;
  }
  return false;
}

// Returns whom to tell where this was the last read of its task, else null.
Completion* DiskLane::note_end(const Read& read) {
  Task* const task = read.task;
  if (--task->n_left > 0) return nullptr;
  free_tasks_.push_back(task);
  return task->completion;
}

// Takes what some reads returned, and starts as many that wait. Writes the tasks that have ended,
// and returns their number.
size_t DiskLane::take_results(std::span<io_uring_cqe* const> entries, EndedTask* ended) {
  const std::lock_guard<std::mutex> lock(mutex_);
  size_t n_ended = 0;
  for (io_uring_cqe* const entry : entries) {
    auto* const read = static_cast<Read*>(io_uring_cqe_get_data(entry));
    if (read == nullptr) continue;  // it only wakes the thread
    if (take_result(read, entry->res)) {
      const Status status = read->task->has_failed ? Status::kFailed : Status::kDone;
      Completion* const completion = note_end(*read);
      if (completion != nullptr) ended[n_ended++] = {completion, status};
    } else {
      waiting_.push_front(*read);
    }
    free_reads_.push_back(read);
  }
  io_uring_cq_advance(&ring_->ring, static_cast<unsigned>(entries.size()));
  start_waiting_reads();
  return n_ended;
}

// Reads that have ended are taken together: each submission is a call of the system, and small
// reads are many.
void DiskLane::reap() {
  io_uring_cqe* entries[kMostEntries];
  EndedTask ended[kMostEntries];
  while (true) {
    const int waited = io_uring_wait_cqe(&ring_->ring, &entries[0]);
    if (waited == -EINTR) continue;
    TROIKA_ASSERT(waited == 0);
    const size_t n = io_uring_peek_batch_cqe(&ring_->ring, entries, kMostEntries);
    const size_t n_ended = take_results({entries, n}, ended);
    // The mutex is free while completions are told, because they may submit the next tasks.
    for (size_t i = 0; i < n_ended; ++i) ended[i].completion->finished(ended[i].status);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (stop_ && waiting_.empty() && free_reads_.size() == reads_.size()) return;
  }
}

void DiskLane::read_in_turn() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    Read read = waiting_.front();
    waiting_.pop_front();
    bool has_ended = false;
    while (!has_ended) {
      const int descriptor = descriptor_for(&read);
      lock.unlock();
      const ssize_t n = ::pread(descriptor, read.request.to + read.n_done,
                                std::min(read.request.bytes - read.n_done, kMostBytes),
                                static_cast<off_t>(read.request.offset + read.n_done));
      const int64_t result = n >= 0 ? n : -errno;
      lock.lock();
      has_ended = take_result(&read, result);
    }
    const Status status = read.task->has_failed ? Status::kFailed : Status::kDone;
    Completion* const completion = note_end(read);
    if (completion == nullptr) continue;
    lock.unlock();
    completion->finished(status);
    lock.lock();
  }
}

}  // namespace troika::lanes
