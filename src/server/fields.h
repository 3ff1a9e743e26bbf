// Reads the fields of a request's JSON object. Each field is asked for by name and kind. Fields
// that nobody asks for are refused, as clients would notice too late that a wish was ignored.
#pragma once

#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "base/error.h"

namespace troika::server {

using Json = nlohmann::ordered_json;

// Says that a request cannot be served: with which status, and what the client may write instead.
class Refused : public Error {
 public:
  Refused(int status, const std::string& why, std::string field = "", std::string code = "")
      : Error(why), status(status), field(std::move(field)), code(std::move(code)) {}
  // Says that there is no room now, and in how many seconds there may be some.
  static Refused for_now(const std::string& why, int retry_after_s) {
    Refused refused(429, why, "", "queue_full");
    refused.retry_after_s = retry_after_s;
    return refused;
  }
  int status;
  std::string field;      // the field that is at fault, if one is
  std::string code;       // a name of the error for programs
  int retry_after_s = 0;  // in how many seconds it may be served; 0: unknown
  std::string allowed;    // the methods that the path has, where another was asked for
  // The kind of error and more fields that clients of llama.cpp look at, for errors that llama.cpp
  // has a name of its own for.
  std::string type;
  Json details = Json::object();
};

// Limits the levels of brackets in JSON that others wrote: writing it takes a call for each level.
inline constexpr size_t kMostNested = 100;

// Counts the bytes of all texts in the JSON, but for the names of fields.
size_t text_bytes(const Json& json);

// Limits the comparisons of keys that reading the JSON of one request may take, which is some
// hundredths of a second: each key of an object is compared with those before it.
inline constexpr size_t kMostCompared = 20'000'000;

// Returns the number whose shortest decimal is the shortest one that reads as this float: JSON of
// it says 0.7 to a client that sent 0.7, and not 0.699999988079071.
double decimal_of(float number);

// Reads a JSON object. Throws Refused if the text is none, is nested more than a hundred times, or
// has objects of more than 2,000 fields, or too many of nearly as many. Texts of one request that
// are read one by one share `n_compared`, which counts the comparisons so far; it may be null.
Json object_from(std::string_view text, size_t* n_compared = nullptr);

class Fields {
 public:
  // The object must outlive this. `where` stands before names in errors, e.g. "messages[0].".
  explicit Fields(const Json& object, std::string where = "");

  // Returns the field; null if it is absent, or null itself.
  const Json* find(const std::string& name);
  std::string text(const std::string& name, const std::string& otherwise = "");
  bool flag(const std::string& name, bool otherwise = false);
  int64_t whole(const std::string& name, int64_t otherwise,
                int64_t least = std::numeric_limits<int64_t>::min(),
                int64_t most = std::numeric_limits<int64_t>::max());
  float number(const std::string& name, float otherwise);
  // Accepts a field that is known but has no effect here.
  void ignore(const std::string& name) { asked_.insert(name); }
  // Throws Refused in these words unless the field is absent, null, false or empty.
  void refuse(const std::string& name, const std::string& why);
  // Throws Refused for the first field that nobody has asked for.
  void finish() const;
  // Does the same, but lets fields through that say nothing: null, false, or empty. Clients send
  // back what they got of other servers, with all fields that their libraries know.
  void finish_but_empty() const;

  [[noreturn]] void fail(const std::string& name, const std::string& problem) const;

 private:
  const Json& object_;
  std::string where_;
  std::set<std::string> asked_;
};

}  // namespace troika::server
