// Makes grammars of arguments that a model writes as pairs of keys and values, with texts without
// quotes, and reads such values.
#pragma once

#include <string>

#include "grammar/pool.h"
#include "server/calls/shape.h"
#include "server/fields.h"

namespace troika::server {

// Returns all arguments that fit a tool's schema, in the order of its properties. Texts may hold
// anything but what ends a text. Throws Error for a schema that pairs cannot be held to.
grammar::Expr pairs_expr(grammar::Pool* pool, const Json& schema, const CallShape::Pairs& pairs);

// Says whether a value of a schema may be a text, and whether it may be anything else.
struct ValueKinds {
  bool text = true, other = true;
};
// Returns the kinds of values that a property of an object's schema may have.
ValueKinds kinds_of_property(const Json& schema, const std::string& key);

// Returns what a value means, as JSON. It is a text unless it can be read as another kind.
std::string value_json(const std::string& value, ValueKinds kinds);

}  // namespace troika::server
