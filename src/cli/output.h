// Reads files and writes what the program says; puts options into errors.
#pragma once

#include <exception>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace troika::cli {

// Returns the text of an error as a terminal may get it, in which options have the names of this
// program, such as --context.
std::string message_of(const std::exception& error);
// Puts options into any text in which they are marked, see base/option_names.h.
std::string with_flags(const std::string& text);

// Returns the whole of a file, or of standard input for "-", which can be asked for once. Throws
// Error.
std::string read_text(const std::string& path);

// Throws where `output` cannot be written or is one of the files that are read: before minutes are
// spent on what goes there. Empty names, and "-" among the files that are read, are no files; one
// file of a split model stands for all.
void check_output_file(const std::string& output, const std::vector<std::string>& read);

// While one lives that is on, `print` writes to standard error: a command's tables stand beside the
// JSON that is its result.
class TablesAside {
 public:
  explicit TablesAside(bool is_on);
  ~TablesAside();
  TablesAside(const TablesAside&) = delete;
  TablesAside& operator=(const TablesAside&) = delete;

 private:
  bool before_;
};

// Is thrown where whoever read standard output has gone, as 'head' does. It ends the program
// without a word.
class ClosedPipe : public Error {
 public:
  using Error::Error;
};

// Writes to standard output. Throws Error where that fails, as on a full disk, and ClosedPipe.
void print(const std::string& text);

// Returns a name from a stranger's file as a terminal may get it: control characters, which could
// clear the screen or forge a line, are written as in JSON, and bytes that are no UTF-8 become
// U+FFFD.
std::string terminal_text(std::string_view text);

// Writes a JSON document and a line end to standard output. Bytes that are no UTF-8, as file names
// may have them, become U+FFFD.
void print_json(const nlohmann::ordered_json& json);
// Returns a number as JSON has it; null for zero, where that stands for what is not known.
nlohmann::ordered_json known_or_null(double value);

// Writes to standard error. Where that fails nobody could be told, so it is ignored.
void note(const std::string& text);

}  // namespace troika::cli
