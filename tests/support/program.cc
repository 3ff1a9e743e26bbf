#include "tests/support/program.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <thread>

extern char** environ;

namespace troika::test_support {
namespace {

constexpr int kNotStarted = 127;

int64_t now_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

void require(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(std::string(what) + " failed");
}

// Arguments and environment in the form that execve takes. They are made before the fork.
struct Strings {
  Strings(const std::vector<std::string>& words,
          const std::map<std::string, std::string>& environment)
      : words_(words) {
    for (std::string& word : words_) argv.push_back(word.data());
    argv.push_back(nullptr);
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      if (environment.count(text.substr(0, text.find('='))) == 0) entries_.push_back(text);
    }
    for (const auto& [name, value] : environment) entries_.push_back(name + "=" + value);
    for (std::string& entry : entries_) envp.push_back(entry.data());
    envp.push_back(nullptr);
  }
  std::vector<char*> argv, envp;

 private:
  std::vector<std::string> words_, entries_;
};

struct Pipe {
  Pipe() { require(pipe2(ends, O_CLOEXEC) == 0, "pipe2"); }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  void close_end(int i) {
    if (ends[i] >= 0) close(ends[i]);
    ends[i] = -1;
  }
  int ends[2];
};

// Runs in the child, so it calls only what is safe after a fork.
void redirect(int descriptor, const std::string& path, int to) {
  const int from =
      path.empty() ? descriptor : open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (from < 0 || dup2(from, to) < 0) _exit(kNotStarted);
}

[[noreturn]] void become(const Command& command, const Strings& strings, const int (&streams)[3]) {
  if (dup2(streams[0], 0) < 0) _exit(kNotStarted);
  redirect(streams[1], command.out_path, 1);
  redirect(streams[2], command.err_path, 2);
  if (command.most_file_bytes > 0) {
    const rlimit limit = {command.most_file_bytes, command.most_file_bytes};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  signal(SIGPIPE, SIG_DFL);
  execve(strings.argv[0], strings.argv.data(), strings.envp.data());
  _exit(kNotStarted);
}

// Appends what can be read now. Returns false at the end of the file.
bool read_some(int descriptor, std::string* text) {
  char buffer[65536];
  const ssize_t n = read(descriptor, buffer, sizeof buffer);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (n <= 0) return false;
  text->append(buffer, static_cast<size_t>(n));
  return true;
}

// Feeds the input and gathers both outputs until they are closed or the time is over.
void exchange(const Command& command, Pipe& in, Pipe& out, Pipe& err, int64_t deadline,
              Finished* finished) {
  fcntl(in.ends[1], F_SETFL, O_NONBLOCK);
  size_t n_fed = 0;
  if (command.in.empty()) in.close_end(1);
  while (out.ends[0] >= 0 || err.ends[0] >= 0) {
    const int64_t left = deadline - now_ms();
    if (left <= 0) return;
    // poll() skips negative descriptors.
    pollfd polls[3] = {
        {out.ends[0], POLLIN, 0}, {err.ends[0], POLLIN, 0}, {in.ends[1], POLLOUT, 0}};
    if (poll(polls, 3, static_cast<int>(std::min<int64_t>(left, 1000))) < 0) continue;
    if (polls[0].revents != 0) {
      const bool more = read_some(out.ends[0], &finished->out);
      if (!more || (command.watch && !command.watch(finished->out))) out.close_end(0);
    }
    if (polls[1].revents != 0 && !read_some(err.ends[0], &finished->err)) err.close_end(0);
    if (polls[2].revents != 0) {
      const ssize_t n = write(in.ends[1], command.in.data() + n_fed, command.in.size() - n_fed);
      if (n > 0) n_fed += static_cast<size_t>(n);
      if ((n < 0 && errno != EAGAIN && errno != EINTR) || n_fed == command.in.size()) {
        in.close_end(1);
      }
    }
  }
}

// Waits for the child. Returns false if it has not ended by the deadline.
bool wait_until(pid_t child, int64_t deadline, int* state) {
  while (true) {
    const pid_t done = waitpid(child, state, WNOHANG);
    if (done == child) return true;
    if (done < 0 && errno != EINTR) return false;
    if (now_ms() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace

Finished run_program(const Command& command) {
  const Strings strings(command.words, command.environment);
  Pipe in, out, err;
  // A child that does not read its input must not end this process.
  const auto old_handler = signal(SIGPIPE, SIG_IGN);
  const pid_t child = fork();
  require(child >= 0, "fork");
  if (child == 0) become(command, strings, {in.ends[0], out.ends[1], err.ends[1]});
  in.close_end(0);
  out.close_end(1);
  err.close_end(1);
  Finished finished;
  const int64_t deadline = now_ms() + int64_t{1000} * command.most_seconds;
  exchange(command, in, out, err, deadline, &finished);
  int state = 0;
  if (!wait_until(child, deadline, &state)) {
    finished.timed_out = true;
    kill(child, SIGKILL);
    waitpid(child, &state, 0);
  }
  signal(SIGPIPE, old_handler);
  if (WIFEXITED(state)) finished.status = WEXITSTATUS(state);
  if (WIFSIGNALED(state)) finished.signal = WTERMSIG(state);
  return finished;
}

TerminalProgram::TerminalProgram(const std::vector<std::string>& words,
                                 const std::map<std::string, std::string>& environment) {
  const Strings strings(words, environment);
  winsize size = {};
  size.ws_col = 80;
  size.ws_row = 24;
  child_ = forkpty(&terminal_, nullptr, nullptr, &size);
  require(child_ >= 0, "forkpty");
  if (child_ == 0) {
    execve(strings.argv[0], strings.argv.data(), strings.envp.data());
    _exit(kNotStarted);
  }
}

TerminalProgram::~TerminalProgram() {
  if (child_ > 0) {
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
  }
  if (terminal_ >= 0) close(terminal_);
}

void TerminalProgram::type(const std::string& keys) {
  require(write(terminal_, keys.data(), keys.size()) == static_cast<ssize_t>(keys.size()), "write");
}

void TerminalProgram::send(int signal) { require(kill(child_, signal) == 0, "kill"); }

void TerminalProgram::set_mode_of_shells() {
  termios state = {};
  require(tcgetattr(terminal_, &state) == 0, "tcgetattr");
  state.c_lflag |= ICANON | ECHO;
  require(tcsetattr(terminal_, TCSANOW, &state) == 0, "tcsetattr");
}

bool TerminalProgram::echoes() const {
  termios state = {};
  require(tcgetattr(terminal_, &state) == 0, "tcgetattr");
  return (state.c_lflag & ECHO) != 0;
}

bool TerminalProgram::read_more(int64_t deadline_ms) {
  const int64_t left = deadline_ms - now_ms();
  if (left <= 0) return false;
  pollfd polled = {terminal_, POLLIN, 0};
  if (poll(&polled, 1, static_cast<int>(left)) <= 0) return errno == EINTR;
  return read_some(terminal_, &pending_);
}

std::string TerminalProgram::read_until(const std::string& text, int most_seconds) {
  const int64_t deadline = now_ms() + int64_t{1000} * most_seconds;
  while (pending_.find(text) == std::string::npos) {
    if (!read_more(deadline)) return "";
  }
  const size_t end = pending_.find(text) + text.size();
  const std::string seen = pending_.substr(0, end);
  pending_.erase(0, end);
  return seen;
}

int TerminalProgram::wait(int most_seconds) {
  const int64_t deadline = now_ms() + int64_t{1000} * most_seconds;
  while (read_more(deadline)) {
  }
  int state = 0;
  if (!wait_until(child_, deadline, &state)) return -1;
  child_ = -1;
  return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

bool TerminalProgram::at_prompt(int most_seconds) {
  if (read_until("> ", most_seconds).empty()) return false;
  for (int64_t deadline = now_ms() + int64_t{1000} * most_seconds; now_ms() < deadline;) {
    termios state = {};
    if (tcgetattr(terminal_, &state) == 0 && (state.c_lflag & ICANON) == 0) return true;
    usleep(1000);
  }
  return false;
}

bool TerminalProgram::type_until(const std::string& keys, const std::string& text,
                                 int most_seconds) {
  for (int second = 0; second < most_seconds; ++second) {
    type(keys);
    if (!read_until(text, 1).empty()) return true;
  }
  return false;
}

int TerminalProgram::leave_with(const std::string& keys, int most_seconds) {
  const int64_t deadline = now_ms() + int64_t{1000} * most_seconds;
  int status = -1;
  while (child_ > 0 && now_ms() < deadline) {
    type(keys);
    status = wait(1);
  }
  return status;
}

}  // namespace troika::test_support
