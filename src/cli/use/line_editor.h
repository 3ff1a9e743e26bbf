// Lines from a person: edited and remembered in a terminal, plain in a pipe.
#pragma once

#include <optional>
#include <string>

namespace troika::cli {

class LineEditor {
 public:
  // History is kept in $XDG_STATE_HOME/troika (~/.local/state/troika); where that cannot be
  // written, only for this run.
  LineEditor();
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // Empty at the end of input.
  std::optional<std::string> read(const char* prompt);
  bool is_terminal() const { return is_terminal_; }

 private:
  bool is_terminal_;
  std::string history_path_;
};

}  // namespace troika::cli
