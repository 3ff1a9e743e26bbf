#include "cli/use/line_editor.h"

#include <editline/readline.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
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

}  // namespace

LineEditor::LineEditor() : is_terminal_(isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0) {
  if (!is_terminal_) return;
  history_path_ = history_file();
  using_history();
  stifle_history(kMostHistoryLines);
  if (!history_path_.empty()) read_history(history_path_.c_str());
}

LineEditor::~LineEditor() {
  if (is_terminal_ && !history_path_.empty()) write_history(history_path_.c_str());
}

std::optional<std::string> LineEditor::read(const char* prompt) {
  if (!is_terminal_) {
    std::string line;
    if (!std::getline(std::cin, line)) return std::nullopt;
    return line;
  }
  const std::unique_ptr<char, void (*)(void*)> line(readline(prompt), &std::free);
  if (line == nullptr) return std::nullopt;
  if (*line != '\0') add_history(line.get());
  return std::string(line.get());
}

}  // namespace troika::cli
