// How an error names what a caller may have asked for: "‹context› -1 makes no sense". Whoever shows
// errors puts in place of such a mark what their reader calls it: --context on a command line.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace troika {

// Returns `message` with name_of("context") in place of "‹context›", and so on.
std::string with_option_names(std::string_view message,
                              const std::function<std::string(std::string_view)>& name_of);

}  // namespace troika
