// Writes a JSON document while it is made, so that its length costs no memory and no key is looked
// for: for documents that repeat what a stranger's file holds.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace troika::cli {

// Writes what nlohmann::json::dump writes for the whole document. Bytes that are no UTF-8 become
// U+FFFD.
class JsonStream {
 public:
  // Gives `write` pieces of the document, of at most some kilobytes more than the longest value.
  // With an indent of -1 everything stands in one line.
  JsonStream(std::function<void(const std::string& piece)> write, int indent);

  void begin_object() { begin('{'); }
  void end_object() { end('}'); }
  void begin_array() { begin('['); }
  void end_array() { end(']'); }
  // Writes the key of the member whose value comes next. Whoever calls sees to it that no key comes
  // twice.
  void key(std::string_view name);
  // Writes a value whole.
  void value(const nlohmann::ordered_json& json);
  // Gives away what has not been given yet. Called at the end.
  void flush();

 private:
  void begin(char bracket);
  void end(char bracket);
  void begin_item();
  void new_line();

  std::function<void(const std::string& piece)> write_;
  int indent_;
  int depth_ = 0;
  bool is_first_ = true;  // says that nothing stands yet in the innermost object or array
  bool has_key_ = false;  // says that a key waits for its value
  std::string piece_;
};

}  // namespace troika::cli
