#include "base/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace troika {
namespace {

constexpr int64_t kIntervalUs = 100'000;

int64_t now_us() {
  using namespace std::chrono;
  return duration_cast<microseconds>(steady_clock::now().time_since_epoch()).count();
}

int terminal_columns(std::FILE* stream) {
  winsize size = {};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace

Progress::Progress(std::string title, std::FILE* stream)
    : title_(std::move(title)), stream_(stream), terminal_(isatty(fileno(stream)) == 1) {}

Progress::~Progress() {
  if (drawn_) {
    std::fputc('\n', stream_);
    std::fflush(stream_);
  }
}

void Progress::update(uint64_t done, uint64_t total) {
  if (!terminal_) return;
  const int64_t now = now_us();
  int64_t due = next_draw_us_.load(std::memory_order_relaxed);
  if (done < total && now < due) return;
  // One thread draws, and the others go on with their work.
  if (!next_draw_us_.compare_exchange_strong(due, now + kIntervalUs)) return;
  const std::lock_guard lock(mutex_);
  const std::string text = line(title_, done, total, terminal_columns(stream_));
  std::fprintf(stream_, "\r%s\033[K", text.c_str());
  std::fflush(stream_);
  drawn_ = true;
}

std::string Progress::line(const std::string& title, uint64_t done, uint64_t total, int columns) {
  const double part =
      total == 0 ? 1.0 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const int percent = static_cast<int>(part * 100.0);
  // Beside the bar the line needs the title, one space, two brackets, one space, "100%", and one
  // free column for the cursor.
  const int room = columns - static_cast<int>(title.size()) - 9;
  const int width = std::min(room, 40);
  if (width < 4) return fmt::format("{:3}%", percent);
  const int filled = static_cast<int>(part * width);
  return fmt::format("{} [{}{}] {:3}%", title, std::string(filled, '#'),
                     std::string(width - filled, ' '), percent);
}

}  // namespace troika
