// A progress bar on standard error for slow work.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <mutex>
#include <string>

namespace troika {

// What slow functions call with the work done so far and the whole of it, in the same unit.
using ProgressFunction = std::function<void(uint64_t done, uint64_t total)>;

// Draws only on a terminal, at most ten times a second; in a pipe it writes nothing. May be called
// from several threads.
class Progress {
 public:
  explicit Progress(std::string title, std::FILE* stream = stderr);
  // Also ends the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(uint64_t done, uint64_t total);
  // For functions that take a callback; this object must outlive it.
  ProgressFunction function() {
    return [this](uint64_t done, uint64_t total) { update(done, total); };
  }

  // The bar as text, without line ends; `columns` is the width of the terminal.
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
