// Escapes text for a picture, because SVG is XML.
#pragma once

#include <string>
#include <string_view>

namespace troika {

// Returns the text with <, >, & and quotes as XML writes them. Characters that XML has not, and
// bytes that are no UTF-8, become U+FFFD: a name may come from a stranger's file.
std::string xml_text(std::string_view text);

}  // namespace troika
