// What the operating system's error numbers mean for a person, and what to do about them.
#pragma once

#include <string>
#include <string_view>

namespace troika {

// Returns an explanation with what to do, such as "the disk is full; free some space ...".
std::string explain_errno(int error_number);

// Throws an Error "PATH: cannot ACTION: explanation.", with errno as it is at the call.
[[noreturn]] void throw_errno(std::string_view path, std::string_view action);

// Returns a piece of untrusted text for a message, in quotes: control characters and bytes beyond
// ASCII are escaped, and it is cut after `max_length` bytes.
std::string quoted(std::string_view text, size_t max_length = 100);

}  // namespace troika
