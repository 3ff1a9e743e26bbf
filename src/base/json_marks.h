// Looks through JSON that is not read yet: what would become too much is refused before. A reader
// that asks at each value whether to go on would do too, but nlohmann's then looks at all values of
// an array again behind each object in it.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace troika {

// A bracket, comma or colon outside of texts, and where it is.
struct JsonMark {
  char c;
  size_t place;     // of the mark in the text, in bytes
  size_t n_levels;  // counts the brackets that are open, with one that opens here
  size_t n_keys;    // counts the keys so far within the innermost of them, with that of this colon
};

// Calls visit(mark) for each mark, until that returns false. In a text that is no JSON, what stands
// before its first error is visited as in one that is.
template <typename Visit>
void visit_json_marks(std::string_view json, Visit visit) {
  std::vector<size_t> n_keys = {0};  // of no bracket, then by the level of brackets
  bool is_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (is_string) {
      if (c == '\\') ++i;
      is_string = c != '"';
      continue;
    }
    if (c == '"') is_string = true;
    if (c == '[' || c == '{') {
      n_keys.push_back(0);
    } else if (c == ']' || c == '}') {
      if (n_keys.size() > 1) n_keys.pop_back();
    } else if (c == ':') {
      if (n_keys.size() > 1) ++n_keys.back();
    } else if (c != ',') {
      continue;
    }
    if (!visit(JsonMark{c, i, n_keys.size() - 1, n_keys.back()})) return;
  }
}

// Says whether a text of JSON has more than `n_most` levels of brackets.
inline bool nests_deeper(std::string_view json, size_t n_most) {
  bool is_deeper = false;
  visit_json_marks(json, [&](const JsonMark& mark) {
    is_deeper = mark.n_levels > n_most;
    return !is_deeper;
  });
  return is_deeper;
}

}  // namespace troika
