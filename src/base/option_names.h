// How an error names an option: by a mark, as in "‹context› -1 makes no sense". Whoever shows
// errors replaces marks by what their reader calls the options: --context on a command line.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace troika {

// Returns `message` with name_of("context") in place of "‹context›", and so on for all marks.
std::string with_option_names(std::string_view message,
                              const std::function<std::string(std::string_view)>& name_of);

}  // namespace troika
