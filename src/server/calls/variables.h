// Keeps the variables that a client gives to a chat template from becoming control tokens. Texts of
// messages and tools are protected by the engine, which takes variables as they are.
#pragma once

#include <string>

#include "server/fields.h"
#include "text/special_matcher.h"

namespace troika::server {

// Throws Refused for a variable that spells a control token, or holds one of engine::kTextMarks, in
// a text or in a name, however deep. All others keep their values, as templates compare them.
void check_variables(const Json& variables, const text::SpecialMatcher& control);

// Returns the functions as a text of JSON for templates that print such a text. It spells no
// control token and holds no mark: JSON may write a character as a number, and that means the same.
// Throws Refused where a control token has no character that can be written so.
std::string functions_text(const Json& functions, const text::SpecialMatcher& control);

}  // namespace troika::server
