#include "server/calls/marked_json.h"

#include "server/calls/partial.h"
#include "server/writer.h"

namespace troika::server {

// Reads a text up to its mark. Characters may come in parts; whole ones are escaped as JSON wants
// it.
bool MarkedJson::read_text(std::string* held, std::string* json) {
  const size_t at = held->find(mark_);
  const bool is_over = at != std::string::npos;
  size_t n = is_over ? at : held->size() - possible_bytes(*held, mark_);
  // No character is longer than four bytes; one that has begun waits.
  for (size_t i = 1; !is_over && i <= 3 && i <= n; ++i) {
    const auto byte = static_cast<unsigned char>((*held)[n - i]);
    if (byte < 0x80) break;
    if (byte < 0xc0) continue;
    if (i < (byte < 0xe0 ? 2u : byte < 0xf0 ? 3u : 4u)) n -= i;
    break;
  }
  const std::string quoted = dump(Json(held->substr(0, n)));
  *json += quoted.substr(1, quoted.size() - 2);
  held->erase(0, is_over ? n + mark_.size() : n);
  if (!is_over) return false;
  *json += '"';
  is_text_ = false;
  return true;
}

bool MarkedJson::read_key(std::string* held, std::string* json) {
  const size_t at = held->find_first_of(":}");
  if (at == std::string::npos) return false;
  is_key_next_ = false;
  if ((*held)[at] == '}') return true;  // an object without keys
  *json += dump(Json(held->substr(0, at))) + ":";
  held->erase(0, at + 1);
  return true;
}

bool MarkedJson::read(std::string* held, std::string* json) {
  while (!held->empty()) {
    if (is_text_) {
      if (!read_text(held, json)) return false;
      continue;
    }
    if (is_key_next_) {
      if (!read_key(held, json)) return false;
      continue;
    }
    if (held->starts_with(mark_)) {
      held->erase(0, mark_.size());
      *json += '"';
      is_text_ = true;
      continue;
    }
    if (mark_.starts_with(*held)) return false;
    const char c = held->front();
    held->erase(0, 1);
    *json += c;
    if (c == '{' || c == '[') open_ += c;
    is_key_next_ = c == '{' || (c == ',' && open_.ends_with('{'));
    if (c == '}' || c == ']') {
      if (!open_.empty()) open_.pop_back();
      if (open_.empty()) return true;
    }
  }
  return false;
}

}  // namespace troika::server
