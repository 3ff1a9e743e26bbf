// Errors that a user, a file, a device or the disk can cause, and asserts for bugs.
#pragma once

#include <stdexcept>
#include <string>

namespace troika {

// An error with one or two plain sentences: what happened, where, and what to do about it.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
};

// Wrong use of the program, such as an unknown flag or an impossible value. The program exits with
// 2, not 1.
class UsageError : public Error {
 public:
  using Error::Error;
};

[[noreturn]] void assert_failed(const char* condition, const char* file, int line);

}  // namespace troika

// Checks a condition that only a bug in this program can break. Never used for input.
#define TROIKA_ASSERT(condition)                               \
  do {                                                         \
    if (!(condition)) [[unlikely]] {                           \
      ::troika::assert_failed(#condition, __FILE__, __LINE__); \
    }                                                          \
  } while (false)
