// Reads files with a JSON object in each line.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"

namespace troika::cli {

[[noreturn]] inline void throw_bad_line(const std::string& path, size_t line,
                                        const std::string& problem) {
  throw Error(fmt::format("{}:{}: {}.", path, line, problem));
}

// Calls visit(line number, object) for every line of JSON.
template <typename Visit>
void for_each_object(const std::string& path, const std::string& content, const Visit& visit) {
  size_t number = 0;
  for (size_t begin = 0; begin < content.size();) {
    const size_t end = std::min(content.find('\n', begin), content.size());
    const std::string line = content.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const nlohmann::json object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!object.is_object()) throw_bad_line(path, number, "is no JSON object");
    visit(number, object);
  }
}

inline std::string string_of(const nlohmann::json& object, const char* key, const std::string& path,
                             size_t line) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) {
    throw_bad_line(path, line, fmt::format("has no string '{}'", key));
  }
  return found->get<std::string>();
}

}  // namespace troika::cli
