#include "cli/use/line_editor.h"

#include <fcntl.h>
#include <histedit.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <filesystem>
#include <iostream>
#include <string_view>
#include <system_error>
#include <utility>

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
    {"\\e[1;5D", "ed-prev-word"}, {"^R", "em-inc-search-prev"},      {"^I", "ed-insert"},
};

// Lists what keys send that do nothing here, so that none of it is typed: Insert, Page Up, Page
// Down and the function keys.
constexpr const char* kIdleKeys[] = {"\\e[2~",  "\\e[5~",  "\\e[6~",  "\\eOP",   "\\eOQ",
                                     "\\eOR",   "\\eOS",   "\\e[11~", "\\e[12~", "\\e[13~",
                                     "\\e[14~", "\\e[15~", "\\e[17~", "\\e[18~", "\\e[19~",
                                     "\\e[20~", "\\e[21~", "\\e[23~", "\\e[24~"};

// A terminal that is told so puts these around what is pasted.
constexpr const char* kMarkPastes = "\x1b[?2004h";
constexpr const char* kMarkPastesNoMore = "\x1b[?2004l";
constexpr const char* kPasteBegins = "\\e[200~";
constexpr std::wstring_view kPasteEnds = L"\x1b[201~";

// Blocks Ctrl-C, what ends the program, what lets it go on behind Ctrl-Z, and what tells of another
// width, except while it waits. Otherwise a signal could come after the flag that its handler sets
// was looked at and before the wait begins, and the wait would go on.
class HeldInterrupt {
 public:
  HeldInterrupt() {
    sigset_t held;
    sigemptyset(&held);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCONT, SIGWINCH}) {
      sigaddset(&held, signal);
    }
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
    for (const auto& [key, action] : kKeys) bind(key, action);
    for (const char* const key : kIdleKeys) bind(key, "ed-unassigned");
    el_set(edit_, EL_ADDFN, "troika-paste", "Inserts what is pasted", &Terminal::insert_paste);
    bind(kPasteBegins, "troika-paste");
    width_ = terminal_width();
  }
  ~Terminal() {
    el_end(edit_);
    history_end(history_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  std::optional<std::string> read(const char* prompt) {
    prompt_ = prompt;
    int n_bytes = 0;
    take_width(edit_);
    show(kMarkPastes);
    const char* const text = el_gets(edit_, &n_bytes);
    show(kMarkPastesNoMore);
    if (text == nullptr || n_bytes <= 0) return std::nullopt;
    std::string line(text, static_cast<size_t>(n_bytes));
    if (line.back() == '\n') line.pop_back();
    HistEvent event;
    if (!line.empty()) history(history_, &event, H_ENTER, line.c_str());
    if (!line.empty()) keep(line);
    return line;
  }

 private:
  static Terminal& self(EditLine* edit) {
    Terminal* terminal = nullptr;
    el_get(edit, EL_CLIENTDATA, &terminal);
    return *terminal;
  }
  static char* prompt_of(EditLine* edit) { return self(edit).prompt_.data(); }
  void bind(const char* key, const char* action) {
    el_set(edit_, EL_BIND, key, action, static_cast<char*>(nullptr));
  }
  // Tells the terminal something that it does not show, if it is one that understands.
  static void show(const char* text) {
    const char* const kind = std::getenv("TERM");
    if (kind == nullptr || std::string_view(kind) == "dumb") return;
    std::fputs(text, stdout);
    std::fflush(stdout);
  }

  // Adds a line to the history of all chats, which others may have added to meanwhile. Where that
  // fails the line is remembered in this run alone.
  void keep(const std::string& line) const {
    if (history_path_.empty()) return;
    const int lock = open((history_path_ + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock < 0) return;
    if (flock(lock, LOCK_EX) == 0) {
      History* const all = history_init();
      HistEvent event;
      history(all, &event, H_SETSIZE, kMostHistoryLines);
      history(all, &event, H_SETUNIQUE, 1);
      history(all, &event, H_LOAD, history_path_.c_str());
      history(all, &event, H_ENTER, line.c_str());
      const std::string made = history_path_ + ".part";
      // A file that is cut off, as on a full disk, takes nobody's place.
      if (history(all, &event, H_SAVE, made.c_str()) >= 0) {
        (void)std::rename(made.c_str(), history_path_.c_str());
      }
      history_end(all);
    }
    close(lock);
  }

  static int terminal_width() {
    winsize size = {};
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
  }
  // Says whether the terminal has another width than before, which libedit has been told.
  static bool take_width(EditLine* edit) {
    const int width = terminal_width();
    if (width == std::exchange(self(edit).width_, width)) return false;
    el_resize(edit);
    return true;
  }

  // Inserts characters up to the mark behind a paste as they are, lines and tabs too. Other control
  // characters could be commands and are left out.
  static unsigned char insert_paste(EditLine* edit, int /*key*/) {
    std::wstring pasted;
    wchar_t character = 0;
    while (!pasted.ends_with(kPasteEnds)) {
      if (read_character(edit, &character) != 1) return CC_EOF;
      pasted += character == L'\r' ? L'\n' : character;
    }
    pasted.resize(pasted.size() - kPasteEnds.size());
    std::erase_if(pasted,
                  [](wchar_t c) { return (c < L' ' && c != L'\n' && c != L'\t') || c == 0x7f; });
    while (pasted.ends_with(L'\n')) pasted.pop_back();  // the Enter is the person's own
    std::string bytes(pasted.size() * MB_CUR_MAX + 1, '\0');
    const size_t n = std::wcstombs(bytes.data(), pasted.c_str(), bytes.size());
    if (n == static_cast<size_t>(-1) || el_insertstr(edit, bytes.c_str()) != 0) return CC_ERROR;
    return CC_REFRESH;
  }

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
      if (take_width(edit)) el_set(edit, EL_REFRESH);
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
  int width_ = 0;
  History* history_;
  EditLine* edit_;
};

namespace {

// A handler reads the state once the flag is set.
termios state_at_start = {};
std::atomic<bool> has_state_at_start{false};

}  // namespace

void LineEditor::restore_terminal() {
  if (!has_state_at_start.load()) return;
  tcsetattr(STDIN_FILENO, TCSANOW, &state_at_start);
  pollfd out = {STDOUT_FILENO, POLLOUT, 0};
  if (poll(&out, 1, 0) != 1) return;  // a terminal that is stopped would not take it
  [[maybe_unused]] const ssize_t n =
      write(STDOUT_FILENO, kMarkPastesNoMore, std::char_traits<char>::length(kMarkPastesNoMore));
}

LineEditor::LineEditor(const std::atomic<bool>& interrupted) {
  if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0) return;
  if (!has_state_at_start.load() && tcgetattr(STDIN_FILENO, &state_at_start) == 0) {
    has_state_at_start.store(true);
  }
  terminal_ = std::make_unique<Terminal>(interrupted);
}

LineEditor::~LineEditor() = default;

LineEditor::KeysWait::KeysWait(const LineEditor& editor) {
  termios state = {};
  if (!editor.is_terminal() || tcgetattr(STDIN_FILENO, &state) != 0) return;
  before_ = std::make_unique<termios>(state);
  state.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);  // Ctrl-C stays a signal
  tcsetattr(STDIN_FILENO, TCSANOW, &state);
}

LineEditor::KeysWait::~KeysWait() {
  if (before_ != nullptr) tcsetattr(STDIN_FILENO, TCSANOW, before_.get());
}

std::optional<std::string> LineEditor::read(const char* prompt) {
  if (terminal_ != nullptr) return terminal_->read(prompt);
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  if (line.ends_with('\r')) line.pop_back();  // a file of another system
  return line;
}

}  // namespace troika::cli
