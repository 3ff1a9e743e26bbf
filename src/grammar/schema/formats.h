// Knows what the standard's names of formats mean.
#pragma once

#include <string_view>

namespace troika::grammar::schema {

struct Format {
  const char* name;
  // Describes the texts that an answer may hold. All of them have the format.
  const char* regex;
  // Describes texts among which are all that have the format, for answers that must not have it.
  // It is null where the other one does so.
  const char* widest = nullptr;
  int n_most_characters = 0;  // limits what an answer may hold; 0: not at all
};

// Returns null where the format is not known.
const Format* find_format(std::string_view name);

// Says whether the standard has the format, and no expression of it is known here.
bool is_refused_format(std::string_view name);

}  // namespace troika::grammar::schema
