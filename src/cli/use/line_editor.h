// Reads lines from a person: edited and remembered in a terminal, plain from a pipe.
#pragma once

#include <termios.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>

namespace troika::cli {

class LineEditor {
 public:
  // Keeps history in $XDG_STATE_HOME/troika (~/.local/state/troika); where that cannot be written,
  // only for this run. `interrupted` is set by whoever handles Ctrl-C, SIGTERM and SIGHUP, and must
  // outlive the editor. In a terminal these signals, and SIGCONT, have handlers that run on the
  // thread that reads.
  explicit LineEditor(const std::atomic<bool>& interrupted);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // While one lives, what is typed in the terminal waits for the next line, whole and unseen: the
  // system's own line would be cut at 4,095 bytes, and shown within what the program prints.
  class KeysWait {
   public:
    explicit KeysWait(const LineEditor& editor);
    ~KeysWait();
    KeysWait(const KeysWait&) = delete;
    KeysWait& operator=(const KeysWait&) = delete;

   private:
    std::unique_ptr<termios> before_;  // null: there is no terminal
  };

  // Returns nothing at the end of input, and where Ctrl-C dropped the line. A text that was pasted
  // may have several lines.
  std::optional<std::string> read(const char* prompt);
  bool is_terminal() const { return terminal_ != nullptr; }
  // Sets the terminal up as it was before the first editor, for a signal's handler that ends the
  // program on the spot.
  static void restore_terminal();

 private:
  class Terminal;

  std::unique_ptr<Terminal> terminal_;  // reads from a pipe where it is null
};

}  // namespace troika::cli
