// A progress bar on standard error for slow work.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>

namespace troika {

// Slow functions call this with the work done so far and the whole of it, in the same unit.
using ProgressFunction = std::function<void(uint64_t done, uint64_t total)>;

// A progress bar. It draws only on a terminal, at most ten times a second; in a pipe it writes
// nothing. Several threads may call it.
class Progress {
 public:
  explicit Progress(std::string title, std::FILE* stream = stderr);
  // Ends the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(uint64_t done, uint64_t total);
  // Returns a callback for slow functions; this object must outlive it.
  ProgressFunction function() {
    return [this](uint64_t done, uint64_t total) { update(done, total); };
  }

  // Returns the bar as text, without line ends; `columns` is the width of the terminal.
  static std::string line(const std::string& title, uint64_t done, uint64_t total, int columns);

 private:
  std::string title_;
  std::FILE* stream_;
  bool terminal_;
  bool drawn_ = false;
  std::atomic<int64_t> next_draw_us_{0};
  std::mutex mutex_;
};

}  // namespace troika
