// What the tests of templates share: a context, and render() over it.
#pragma once

#include <string>

#include "jinja/limits.h"

namespace troika::jinja {

struct Row {
  const char* source;
  const char* expected;
};

// The text, or "error: " and the message, or "raised: " and the template's own message.
std::string render(const std::string& source, const Limits& limits = {});

}  // namespace troika::jinja
