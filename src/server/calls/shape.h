// Finds from a chat template how the model writes calls of tools: a conversation with calls of
// known names is rendered, and what stands around the names is the shape.
#pragma once

#include <optional>
#include <string>

#include "engine/chat.h"

namespace troika::server {

// The shape of calls: before NAME middle ARGUMENTS [between NAME middle ARGUMENTS]... after. The
// arguments are JSON or pairs. If calls have ids, an id and `behind_id` stand in front of each
// name.
struct CallShape {
  std::string before, middle;
  std::string between;  // empty: one call at a time
  std::string after;
  // If false, the template knows no tools, so they are described in the system message, or in the
  // user's first message if the template takes no system message.
  bool is_of_template = false;
  bool takes_system = true;
  std::string behind_id{};  // empty: there are no ids
  // If not empty, calls are counted: a number and this text stand behind `middle`.
  std::string behind_count{};

  // A pair is: open KEY to_text TEXT close, or: open KEY to_json JSON close. If `behind_key` is not
  // empty, the key and `behind_key` follow.
  struct Pairs {
    std::string open, to_text, to_json, close;
    std::string behind_key{};
    std::string close_of(const std::string& key) const {
      return behind_key.empty() ? close : close + key + behind_key;
    }
  };
  std::optional<Pairs> pairs{};
  // If not empty, arguments are JSON except that texts stand without escapes between two of these
  // marks, and that keys have neither quotes nor marks.
  std::string text_mark{};
  // The template shows tools only if they and their properties are described.
  bool wants_descriptions = false;

  // Returns what a call begins with, after any white space.
  std::string trigger() const;
  // Returns the mark like <|this|> that a call begins with, which no words hold; the whole trigger
  // if it begins with none.
  std::string mark() const;
  // Returns what every call ends with, whether another one follows or not.
  std::string ending() const;
  // Returns where the name at the beginning of this text ends; npos if its end has not come yet.
  size_t end_of_name(const std::string& text) const;
};

// Returns the shape that the template has, or a common shape if none can be found.
CallShape find_shape(const engine::ChatFormat& chat);

// The marks around thoughts. Both are empty if the template knows no thoughts.
struct ThoughtMarks {
  std::string open, close;
};
ThoughtMarks find_thought_marks(const engine::ChatFormat& chat);

}  // namespace troika::server
