#include "cli/use/line_editor.h"

#include <fcntl.h>
#include <histedit.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <cwchar>
#include <filesystem>
#include <iostream>
#include <system_error>

namespace troika::cli {
namespace {

constexpr int kMostHistoryLines = 1000;

std::string history_file() {
  namespace fs = std::filesystem;
  fs::path folder;
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state != '\0') {
    folder = state;
  } else if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    folder = fs::path(home) / ".local" / "state";
  } else {
    return "";
  }
  folder /= "troika";
  std::error_code error;
  fs::create_directories(folder, error);
  return error ? "" : (folder / "chat_history").string();
}

// Lists what the keys of common terminals send, and what they do.
constexpr const char* kKeys[][2] = {
    {"\\e[1~", "ed-move-to-beg"}, {"\\e[H", "ed-move-to-beg"},       {"\\e[4~", "ed-move-to-end"},
    {"\\e[F", "ed-move-to-end"},  {"\\e[3~", "ed-delete-next-char"}, {"\\e[1;5C", "em-next-word"},
    {"\\e[1;5D", "ed-prev-word"}, {"^R", "em-inc-search-prev"},
};

// Blocks Ctrl-C, what ends the program, and what lets it go on behind Ctrl-Z, except while it
// waits. Otherwise a signal could come after the flag that its handler sets was looked at and
// before the wait begins, and the wait would go on.
class HeldInterrupt {
 public:
  HeldInterrupt() {
    sigset_t held;
    sigemptyset(&held);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCONT}) sigaddset(&held, signal);
    pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  ~HeldInterrupt() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HeldInterrupt(const HeldInterrupt&) = delete;
  HeldInterrupt& operator=(const HeldInterrupt&) = delete;

  // Returns true when there is something to read, false when a signal was handled.
  bool wait_for_input(int terminal) const {
    pollfd input = {terminal, POLLIN, 0};
    return ppoll(&input, 1, nullptr, &before_) > 0;
  }

 private:
  sigset_t before_;
};

// Opens the terminal of standard input once more, for reads that never wait. A terminal forgets at
// Ctrl-C what was typed, so that nothing may be left to read after there was something, and a read
// that waits would hold the signal back until the next key. Standard input itself stays as it is,
// because other programs share its flags. Where the terminal belongs to somebody else (after su)
// and cannot be opened, standard input has to do.
class KeysWithoutWaiting {
 public:
  KeysWithoutWaiting() {
    char path[256];
    if (ttyname_r(STDIN_FILENO, path, sizeof(path)) != 0) return;
    descriptor_ = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  }
  ~KeysWithoutWaiting() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  KeysWithoutWaiting(const KeysWithoutWaiting&) = delete;
  KeysWithoutWaiting& operator=(const KeysWithoutWaiting&) = delete;

  int descriptor() const { return descriptor_ >= 0 ? descriptor_ : STDIN_FILENO; }

 private:
  int descriptor_ = -1;
};

}  // namespace

// Lets libedit read through a function of this class. libedit's own function misses a Ctrl-C that
// comes while a key is drawn: the signal's handler runs, and the read that follows waits all the
// same.
class LineEditor::Terminal {
 public:
  explicit Terminal(const std::atomic<bool>& interrupted)
      : interrupted_(interrupted),
        history_(history_init()),
        edit_(el_init("troika", stdin, stdout, stderr)) {
    if (std::setlocale(LC_CTYPE, "") == nullptr || MB_CUR_MAX == 1) {
      std::setlocale(LC_CTYPE, "C.UTF-8");
    }
    HistEvent event;
    history(history_, &event, H_SETSIZE, kMostHistoryLines);
    history(history_, &event, H_SETUNIQUE, 1);
    history_path_ = history_file();
    if (!history_path_.empty()) history(history_, &event, H_LOAD, history_path_.c_str());
    el_set(edit_, EL_CLIENTDATA, this);
    el_set(edit_, EL_EDITOR, "emacs");
    el_set(edit_, EL_SIGNAL, 0);
    el_set(edit_, EL_HIST, history, history_);
    el_set(edit_, EL_PROMPT, &Terminal::prompt_of);
    el_set(edit_, EL_GETCFN, &Terminal::read_character);
    for (const auto& [key, action] : kKeys) {
      el_set(edit_, EL_BIND, key, action, static_cast<char*>(nullptr));
    }
  }
  ~Terminal() {
    HistEvent event;
    if (!history_path_.empty()) history(history_, &event, H_SAVE, history_path_.c_str());
    el_end(edit_);
    history_end(history_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  std::optional<std::string> read(const char* prompt) {
    prompt_ = prompt;
    int n_bytes = 0;
    const char* const text = el_gets(edit_, &n_bytes);
    if (text == nullptr || n_bytes <= 0) return std::nullopt;
    std::string line(text, static_cast<size_t>(n_bytes));
    if (line.back() == '\n') line.pop_back();
    HistEvent event;
    if (!line.empty()) history(history_, &event, H_ENTER, line.c_str());
    return line;
  }

 private:
  static Terminal& self(EditLine* edit) {
    Terminal* terminal = nullptr;
    el_get(edit, EL_CLIENTDATA, &terminal);
    return *terminal;
  }
  static char* prompt_of(EditLine* edit) { return self(edit).prompt_.data(); }

  // Sets the terminal up for single keys again where a shell has taken it meanwhile, and shows the
  // line.
  static void take_terminal_back(EditLine* edit) {
    termios state = {};
    if (tcgetattr(STDIN_FILENO, &state) != 0 || (state.c_lflag & ICANON) == 0) return;
    for (const int is_wanted : {0, 1}) el_set(edit, EL_PREP_TERM, is_wanted);
    el_set(edit, EL_REFRESH);
  }

  // Returns 1 and a character; 0 at the end of input; -1 for Ctrl-C, which drops the line.
  static int read_character(EditLine* edit, wchar_t* character) {
    const Terminal& terminal = self(edit);
    const HeldInterrupt held;
    std::mbstate_t state = {};
    while (true) {
      if (terminal.interrupted_.load(std::memory_order_relaxed)) return -1;
      take_terminal_back(edit);
      if (!held.wait_for_input(terminal.keys_.descriptor())) continue;
      char byte = 0;
      const ssize_t n_read = ::read(terminal.keys_.descriptor(), &byte, 1);
      if (n_read == 0) return 0;
      if (n_read < 0 && errno != EINTR && errno != EAGAIN) return -1;
      if (n_read < 0) continue;
      const size_t n = std::mbrtowc(character, &byte, 1, &state);
      if (n == static_cast<size_t>(-2)) continue;  // the character has more bytes
      if (n == static_cast<size_t>(-1)) {  // the bytes are no UTF-8: what comes next may be some
        state = {};
        continue;
      }
      return 1;
    }
  }

  const std::atomic<bool>& interrupted_;
  const KeysWithoutWaiting keys_;
  std::string prompt_;
  std::string history_path_;
  History* history_;
  EditLine* edit_;
};

LineEditor::LineEditor(const std::atomic<bool>& interrupted) {
  if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0) return;
  terminal_ = std::make_unique<Terminal>(interrupted);
}

LineEditor::~LineEditor() = default;

std::optional<std::string> LineEditor::read(const char* prompt) {
  if (terminal_ != nullptr) return terminal_->read(prompt);
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  return line;
}

}  // namespace troika::cli
