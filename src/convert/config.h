// The JSON files of a Hugging Face folder. They are read whole, with bounds on size and depth, and
// every number is checked before it is used.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace troika {
class MappedFile;
}

namespace troika::convert {

using Json = nlohmann::json;

// Reads a file. Throws Error where it cannot be read, is longer than `most_bytes`, is nested deeper
// or holds more values than any such file, or is no JSON object.
Json read_json(const std::string& path, uint64_t most_bytes);
// Reads a text; `path` stands in messages.
Json parse_json(std::string_view text, const std::string& path);
// Says whether something has this path. A link that leads nowhere is there, so that whoever opens
// it says so: a file that is taken for missing would silently change what is read.
bool is_there(const std::string& path);
// Reads a file; returns nothing where there is no such file.
std::optional<Json> find_json(const std::string& path, uint64_t most_bytes);

// Throws Error where the file became shorter or unreadable since it was opened. Whoever has read it
// asks this then, because the end may have come as zeros.
void check_whole(const MappedFile& file);

// Returns the member of an object; null where the value is no object, or has no such member, or a
// null one.
const Json* member(const Json& object, std::string_view key);
// Returns the value where it is a string.
std::optional<std::string> text_member(const Json& object, std::string_view key);
std::optional<bool> bool_member(const Json& object, std::string_view key);

// Reads values of config.json, or of a part of it. Every call throws an Error that names the key
// where the value is missing, of another kind or out of range.
class Config {
 public:
  // `json` is an object that outlives the Config.
  Config(const Json& json, std::string path) : json_(json), path_(std::move(path)) {}

  const Json& json() const { return json_; }
  const std::string& path() const { return path_; }

  uint32_t count(std::string_view key, uint32_t lowest, uint32_t highest,
                 std::optional<uint32_t> fallback = std::nullopt) const;
  double number(std::string_view key, double lowest, double highest,
                std::optional<double> fallback = std::nullopt) const;
  bool flag(std::string_view key, bool fallback) const;
  std::string text(std::string_view key, std::string_view fallback = {}) const;

  [[noreturn]] void fail(std::string_view problem) const;

 private:
  const Json& json_;
  std::string path_;
};

}  // namespace troika::convert
