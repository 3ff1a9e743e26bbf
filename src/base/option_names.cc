#include "base/option_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace troika {
namespace {

constexpr std::string_view kOpen = "‹", kClose = "›", kCommand = "'troika ";

// Returns a command, without its quotes, in words: what stands before its first flag, in quotes
// again, and behind them the names of its long flags.
std::string in_words(std::string_view command) {
  std::string line, names;
  bool has_flags = false;
  while (!command.empty()) {
    const std::string_view word = command.substr(0, command.find(' '));
    command.remove_prefix(std::min(word.size() + 1, command.size()));
    has_flags = has_flags || word.substr(0, 1) == "-";
    if (!has_flags) line.append(line.empty() ? "" : " ").append(word);
    if (word.substr(0, 2) != "--") continue;
    names.append(names.empty() ? " (with " : ", ").append(word.substr(2));
  }
  if (!names.empty()) names += ")";
  return "'" + line + "'" + names;
}

// Returns where a command ends that begins at `open`: at an apostrophe behind which no word goes
// on, because paths in it may have some.
size_t end_of_command(std::string_view message, size_t open) {
  size_t close = message.find('\'', open + 1);
  while (close != message.npos && close + 1 < message.size() &&
         std::string_view(" .,;:)\n").find(message[close + 1]) == std::string_view::npos) {
    close = message.find('\'', close + 1);
  }
  return close;
}

}  // namespace

size_t index_of_name(std::span<const char* const> names, std::string_view name,
                     std::string_view option) {
  const auto at = std::find(names.begin(), names.end(), name);
  if (at != names.end()) return static_cast<size_t>(at - names.begin());
  throw UsageError(fmt::format("‹{}› '{}' is not understood; there are {} and {}.", option, name,
                               fmt::join(names.first(names.size() - 1), ", "), names.back()));
}

std::string with_option_names(std::string_view message,
                              const std::function<std::string(std::string_view)>& name_of) {
  std::string named;
  while (true) {
    const size_t open = message.find(kOpen);
    const size_t begin = open + kOpen.size();
    const size_t close = open == message.npos ? message.npos : message.find(kClose, begin);
    if (close == message.npos) return named.append(message);
    named.append(message.substr(0, open));
    named += name_of(message.substr(begin, close - begin));
    message.remove_prefix(close + kClose.size());
  }
}

std::string without_flags(std::string_view message) {
  std::string told;
  while (true) {
    const size_t open = message.find(kCommand);
    const size_t close = open == message.npos ? message.npos : end_of_command(message, open);
    if (close == message.npos) return told.append(message);
    told.append(message.substr(0, open));
    told += in_words(message.substr(open + 1, close - open - 1));
    message.remove_prefix(close + 1);
  }
}

}  // namespace troika
