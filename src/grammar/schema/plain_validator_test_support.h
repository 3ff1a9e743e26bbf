// Judges values by JSON schemas without a grammar, as the standard words it: for tests.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace troika::grammar {

// Knows the keywords that random schemas of tests have, and no others.
class PlainValidator {
 public:
  using Json = nlohmann::ordered_json;
  explicit PlainValidator(const Json& root) : root_(root) {}

  bool fits(const Json& value) const { return judge(root_, value).fits; }

 private:
  struct Judgement {
    bool fits = true;
    std::set<std::string> evaluated{};  // the keys that some schema which holds has looked at
    void add(const Judgement& part);
  };
  Judgement judge(const Json& schema, const Json& value) const;
  void judge_choices(const Json& schema, const Json& value, Judgement* all) const;
  void judge_members(const Json& schema, const Json& value, Judgement* all) const;

  const Json& root_;
};

}  // namespace troika::grammar
