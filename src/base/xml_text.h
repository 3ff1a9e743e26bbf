// Escapes text for a picture, because SVG is XML.
#pragma once

#include <string>
#include <string_view>

namespace troika {

// Returns the text with <, >, & and quotes as XML writes them.
std::string xml_text(std::string_view text);

}  // namespace troika
