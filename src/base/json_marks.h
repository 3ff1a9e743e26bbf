// Looks through JSON that is not read yet: what would become too much is refused before.
#pragma once

#include <cstddef>
#include <string_view>

namespace troika {

// Calls visit(c) for each character of JSON that is outside of texts, until that returns false.
template <typename Visit>
void visit_json_marks(std::string_view json, Visit visit) {
  bool is_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (is_string) {
      if (c == '\\') ++i;
      is_string = c != '"';
    } else if (c == '"') {
      is_string = true;
    } else if (!visit(c)) {
      return;
    }
  }
}

}  // namespace troika
