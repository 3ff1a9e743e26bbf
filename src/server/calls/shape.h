// How a model writes calls of tools, which its chat template tells: a conversation with calls of
// known names is rendered, and what stands around them is the shape.
#pragma once

#include <optional>
#include <string>

#include "engine/chat.h"

namespace troika::server {

// before NAME middle ARGUMENTS [between NAME middle ARGUMENTS]... after; the arguments are JSON, or
// pairs. Where calls have ids, one and `behind_id` stand in front of each name.
struct CallShape {
  std::string before, middle;
  std::string between;  // empty: one call at a time
  std::string after;
  // False: the template says nothing of tools, so that they stand in the system message.
  bool is_of_template = false;
  std::string behind_id{};  // empty: there are no ids
  // Not empty: calls are counted, and a number and this stand behind `middle`.
  std::string behind_count{};

  // open KEY to_text TEXT close, or open KEY to_json JSON close. Where `behind_key` is not empty,
  // the key and that follow.
  struct Pairs {
    std::string open, to_text, to_json, close;
    std::string behind_key{};
    std::string close_of(const std::string& key) const {
      return behind_key.empty() ? close : close + key + behind_key;
    }
  };
  std::optional<Pairs> pairs{};
  // Not empty: arguments are JSON but for texts, which stand as they are between these marks, and
  // for keys, which have no marks.
  std::string text_mark{};
  // The template shows tools only if their properties are described.
  bool wants_descriptions = false;

  // What a call begins with, after any white space.
  std::string trigger() const;
  // What every call ends with, whether another one follows or not.
  std::string ending() const;
  // Where a name ends at the beginning of this text; npos where it does not yet.
  size_t end_of_name(const std::string& text) const;
};

// The shape that the template has, or a common one where it has none that can be found.
CallShape find_shape(const engine::ChatFormat& chat);

// How thoughts are marked; both empty: the template knows none.
struct ThoughtMarks {
  std::string open, close;
};
ThoughtMarks find_thought_marks(const engine::ChatFormat& chat);

}  // namespace troika::server
