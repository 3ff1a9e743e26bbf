// The disk as a lane: a task is a list of reads, which go to the kernel at once through io_uring
// and end in any order. Where io_uring is forbidden, a thread makes one read after the other.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "lanes/disk/kept_line.h"
#include "lanes/lane.h"

struct io_uring_cqe;

namespace troika::lanes {

struct DiskOptions {
  std::vector<std::string> files;  // ReadRequest::file is an index into these
  // Names each file for people; where it is empty, paths stand for names.
  std::vector<std::string> names;
  int depth = 64;  // counts reads under way at once
  bool may_use_io_uring = true;
  // Reads go past the page cache where address, offset and length allow it.
  bool may_read_directly = true;
  // For tests: plays a disk that fails. It gets what a read returned (bytes or -errno) and returns
  // what the lane is to take instead. Called by one thread at a time.
  std::function<int64_t(const ReadRequest& read, int64_t returned)> spoil = {};
};

class DiskLane : public Lane {
 public:
  // Throws Error where a file cannot be opened.
  explicit DiskLane(const DiskOptions& options);
  // Waits for all reads under way.
  ~DiskLane() override;

  const LaneInfo& info() const override { return info_; }
  // Throws Error, because the disk computes nothing.
  std::unique_ptr<Executable> build(const Subgraph& subgraph, plan::Shape shape,
                                    const weights::Store& weights, const Buffers& buffers) override;
  // Builds a task of reads. Which reads they are is said by each run.
  std::unique_ptr<Executable> make_read() const;
  // Takes memory for so many tasks that are under way at a time, and for so many reads in all.
  // While there are no more, submit() asks for none.
  void reserve(size_t n_tasks, size_t n_reads);
  // Returns at once; several tasks may be under way. `run.reads` must live until the completion is
  // told, by a thread of the lane. Where it throws std::bad_alloc, nothing is under way. A failed
  // read and one that the file's end cuts short make the status kFailed; then the bytes of the
  // whole task must not be used.
  void submit(const Executable& executable, const Run& run, Completion& completion) override;
  std::string problem() const override;

  // Returns a sentence for people about each thing that could not be had; empty where everything
  // could.
  std::vector<std::string> notes() const;
  uint64_t n_direct_reads() const;
  // Counts those that went through the page cache, which may have kept what they read.
  uint64_t n_cached_reads() const;

  static constexpr size_t kAlignment = 4096;  // direct reads ask for this alignment

 private:
  struct OpenFile {
    std::string path;
    int buffered = -1;
    int direct = -1;  // -1: the file system refuses
    // Says that the file system took the flag, and then refused a read of whole pages.
    bool refuses_direct = false;
  };
  // The reads of one submission.
  struct Task {
    Completion* completion = nullptr;
    size_t n_left = 0;
    bool has_failed = false;
  };
  // One read, from its way into the queue until it is complete.
  struct Read {
    Task* task = nullptr;
    ReadRequest request;
    uint64_t n_done = 0;
    bool is_direct = false;  // says that what is under way goes past the page cache
  };
  struct Ring;  // io_uring
  struct EndedTask {
    Completion* completion = nullptr;
    Status status = Status::kDone;
  };
  static constexpr unsigned kMostEntries = 32;  // counts ends of reads that are taken together

  void open_files();
  void start_ring();
  bool can_read_directly(const Read& read) const;
  int try_ring();
  // These functions REQUIRE the mutex.
  void make_room(size_t n_tasks, size_t n_reads);
  int descriptor_for(Read* read);
  void start_waiting_reads();
  void submit_entries();
  Completion* note_end(const Read& read);
  void note_problem(const Read& read, int error_number);
  bool is_refused(const Read& read, int64_t result);
  // Handles what a read returned (bytes or -errno). Returns whether the read has ended.
  bool take_result(Read* read, int64_t result);
  size_t take_results(std::span<io_uring_cqe* const> entries, EndedTask* ended);
  void reap();
  void read_in_turn();

  DiskOptions options_;
  LaneInfo info_;
  std::vector<OpenFile> files_;
  std::vector<std::string> notes_;
  std::unique_ptr<Ring> ring_;  // null where reads are made by preads

  mutable std::mutex mutex_;
  std::condition_variable wake_;  // wakes the thread that makes one read after the other
  std::vector<std::unique_ptr<Task>> tasks_;
  std::vector<Task*> free_tasks_;
  std::vector<std::unique_ptr<Read>> reads_;
  std::vector<Read*> free_reads_;  // has as many entries as reads may be under way
  KeptLine<Read> waiting_;
  std::string problem_;
  uint64_t n_direct_ = 0;
  uint64_t n_cached_ = 0;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace troika::lanes
