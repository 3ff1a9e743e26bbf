// The fields of a request's JSON object. Each is asked for by name and kind; what nobody asks for
// is refused, because a wish that is ignored is found out too late.
#pragma once

#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "base/error.h"

namespace troika::server {

using Json = nlohmann::ordered_json;

// A request that cannot be served: the status, and what to write in place of it.
class Refused : public Error {
 public:
  Refused(int status, const std::string& why, std::string field = "", std::string code = "")
      : Error(why), status(status), field(std::move(field)), code(std::move(code)) {}
  int status;
  std::string field;      // at fault, if it is one
  std::string code;       // for programs
  int retry_after_s = 0;  // when it may be served; 0: nobody knows
  // What clients of llama.cpp look at, where it has its own: the kind of error, and more fields.
  std::string type;
  Json details = Json::object();
};

// Throws Refused for what is no JSON object, or is nested more than a hundred times.
Json object_from(std::string_view text);

class Fields {
 public:
  // Both must outlive it. `where` stands before names in errors: "messages[0].".
  explicit Fields(const Json& object, std::string where = "");

  // The field, or null where it is absent or null itself.
  const Json* find(const std::string& name);
  std::string text(const std::string& name, const std::string& otherwise = "");
  bool flag(const std::string& name, bool otherwise = false);
  int64_t whole(const std::string& name, int64_t otherwise,
                int64_t least = std::numeric_limits<int64_t>::min(),
                int64_t most = std::numeric_limits<int64_t>::max());
  float number(const std::string& name, float otherwise);
  // Fields that are known and have no effect here.
  void ignore(const std::string& name) { asked_.insert(name); }
  // Refused in these words unless it is absent, null, false, or empty.
  void refuse(const std::string& name, const std::string& why);
  // Throws Refused for the first field that nobody has asked for.
  void finish() const;

  [[noreturn]] void fail(const std::string& name, const std::string& problem) const;

 private:
  const Json& object_;
  std::string where_;
  std::set<std::string> asked_;
};

}  // namespace troika::server
