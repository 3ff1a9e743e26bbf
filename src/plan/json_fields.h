// Reads JSON files, with messages that name the file and the field.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

namespace troika::plan {

// Parses the text of a file. Returns a discarded value where it is no JSON text. Throws Error where
// it is nested deeper than any file of this program: whoever copies or prints such a value would
// use up the stack. `advice` ends the message.
nlohmann::json parse_json(const std::string& text, const std::string& file,
                          const std::string& advice = {});

// Count what files of plans and profiles may hold. Rules are placements, cuts and arrangements, all
// of which are looked through for each subgraph in each shape.
inline constexpr size_t kMostLanes = 1024;
inline constexpr size_t kMostRules = 8192;

// One object of a JSON file, at a path such as "lanes[0]".
class JsonFields {
 public:
  // Returns the whole file as one object. Throws Error where the text is no JSON object. `advice`
  // ends every message: a sentence that says what to do.
  static JsonFields parse(const std::string& text, const std::string& file,
                          const std::string& advice = {});

  JsonFields object(const char* key) const;
  // Calls visit(JsonFields) for each element of an array of objects, which holds at most `most`.
  template <typename Visit>
  void each(const char* key, const Visit& visit) const {
    each(key, SIZE_MAX, visit);
  }
  template <typename Visit>
  void each(const char* key, size_t most, const Visit& visit) const {
    const nlohmann::json& array = value(key, "an array");
    if (!array.is_array()) fail(key, "must be an array");
    if (array.size() > most) fail(key, "holds more than " + std::to_string(most) + " entries");
    for (size_t i = 0; i < array.size(); ++i) {
      visit(element(key, array, i));
    }
  }

  bool has(const char* key) const { return json_.contains(key); }
  // Throws Error that names a field which is none of these.
  void only(std::initializer_list<const char*> keys) const;
  // Returns that of a field's two names which is there: older files have the older one.
  const char* present(const char* name, const char* older) const {
    return has(older) && !has(name) ? older : name;
  }
  int64_t integer(const char* key, int64_t lowest, int64_t highest) const;
  double number(const char* key, double lowest, double highest) const;
  // Reads a time or a rate, and refuses zero and less: they would make everything free.
  double positive(const char* key, double highest) const;
  bool flag(const char* key) const;
  std::string text(const char* key) const;
  // Returns the index of the field's text among the names that it may be.
  size_t one_of(const char* key, std::span<const char* const> names) const;
  std::vector<double> positives(const char* key, double highest) const;
  std::vector<int> integers(const char* key, int lowest, int highest) const;

  // Throws Error that reads "FILE: 'lanes[0].cores' PROBLEM."
  [[noreturn]] void fail(const char* key, const std::string& problem) const;

 private:
  JsonFields(nlohmann::json json, std::string file, std::string path, std::string advice)
      : json_(std::move(json)),
        file_(std::move(file)),
        path_(std::move(path)),
        advice_(std::move(advice)) {}
  const nlohmann::json& value(const char* key, const char* wanted) const;
  JsonFields element(const char* key, const nlohmann::json& array, size_t index) const;

  nlohmann::json json_;
  std::string file_;
  std::string path_;  // "" or "lanes[0]."
  std::string advice_;
};

}  // namespace troika::plan
