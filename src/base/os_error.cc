#include "base/os_error.h"

#include <fmt/format.h>

#include <cerrno>
#include <system_error>

#include "base/error.h"

namespace troika {

std::string explain_errno(int error_number) {
  switch (error_number) {
    case ENOENT:
      return "there is no such file or folder; check the path";
    case EACCES:
    case EPERM:
      return "permission is missing; check the rights of the file and its folder";
    case ENOSPC:
      return "the disk is full; free some space or choose a path on another disk";
    case EDQUOT:
      return "the disk quota is used up; free some space or choose a path on another disk";
    case EFBIG:
      return "the file would be larger than the limit of this disk or of `ulimit -f` allows";
    case EROFS:
      return "the disk is mounted read-only; choose a path on another disk";
    case EIO:
      return "the disk reports a read or write error; check the disk";
    case EISDIR:
      return "it is a folder; give the path of a file";
    case ENOTDIR:
      return "a part of the path is a file, not a folder; check the path";
    case ENAMETOOLONG:
      return "the path is too long; choose a shorter one";
    case EMFILE:
    case ENFILE:
      return "too many files are open; raise the limit with `ulimit -n`";
    case ENOMEM:
      return "there is not enough memory or address space; close other programs or check "
             "`ulimit -v`";
    default:
      return std::generic_category().message(error_number);
  }
}

void throw_errno(std::string_view path, std::string_view action) {
  const int error_number = errno;
  throw Error(fmt::format("{}: cannot {}: {}.", path, action, explain_errno(error_number)));
}

std::string quoted(std::string_view text, size_t max_length) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size() && i < max_length; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte > 0x7e) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      if (byte == '"' || byte == '\\') out += '\\';
      out += text[i];
    }
  }
  if (text.size() > max_length) out += "...";
  return out + "\"";
}

}  // namespace troika
