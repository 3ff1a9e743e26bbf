// How an error names an option: by a mark, as in "‹context› -1 makes no sense". Whoever shows
// errors replaces marks by what their reader calls the options: --context on a command line. A
// command that is advised stands as it is typed, and loses its flags for who types none.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace troika {

// Returns the place of a name among those that an option ("load") takes. Throws UsageError that
// lists them.
size_t index_of_name(std::span<const char* const> names, std::string_view name,
                     std::string_view option);

// Returns `message` with name_of("context") in place of "‹context›", and so on for all marks.
std::string with_option_names(std::string_view message,
                              const std::function<std::string(std::string_view)>& name_of);

// Returns `message` with the commands that it advises in words, for a reader who is not at a
// command line: "'troika plan MODEL' (with calibrate)" in place of
// "'troika plan MODEL --calibrate TEXT -o FILE'". What belongs to a flag goes with it.
std::string without_flags(std::string_view message);

}  // namespace troika
