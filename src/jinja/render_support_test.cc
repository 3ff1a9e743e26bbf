#include "jinja/render_support_test.h"

#include <nlohmann/json.hpp>

#include "jinja/chat_template.h"

namespace troika::jinja {

namespace {
const char kConversation[] = R"({
  "s": "Hello, Wörld", "n": 7, "f": 2.5, "l": [3, 1, 2], "t": true, "z": null, "e": "",
  "d": {"b": 1, "a": [1, 2], "C": "x"},
  "ms": [{"role": "user", "n": 2, "c": "B"}, {"role": "assistant", "n": 1, "c": "a"},
         {"role": "user", "n": 3}],
  "nested": {"x": {"y": [{"z": 5}]}},
  "tree": [{"n": 1, "ch": [{"n": 2, "ch": []}, {"n": 3, "ch": [{"n": 4, "ch": []}]}]}]
})";
}  // namespace

std::string render(const std::string& source, const Limits& limits) {
  try {
    ChatTemplate chat_template(source, limits);
    chat_template.set_time(1700000000);
    return chat_template.render(nlohmann::ordered_json::parse(kConversation));
  } catch (const RaisedByTemplate& e) {
    return "raised: " + e.message();
  } catch (const Error& e) {
    return std::string("error: ") + e.what();
  }
}

}  // namespace troika::jinja
