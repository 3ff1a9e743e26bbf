// Resolves a reference against the address of the schema in which it stands (RFC 3986).
#pragma once

#include <string>
#include <string_view>

namespace troika::grammar::schema {

// Returns the absolute address that a reference means. Both may have a fragment: the base's is left
// out, the reference's is kept. A base may be empty or relative itself.
std::string resolved_address(std::string_view base, std::string_view reference);

// Decodes e.g. %41 to A.
std::string unescaped_address(std::string_view text);

}  // namespace troika::grammar::schema
