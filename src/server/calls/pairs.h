// Arguments that a model writes as pairs of keys and values, texts without quotes: what they may
// be, and what they mean.
#pragma once

#include <string>

#include "grammar/pool.h"
#include "server/calls/shape.h"
#include "server/fields.h"

namespace troika::server {

// All arguments that fit a tool's schema, in the order of its properties. Texts may be of any
// characters but what ends one. Throws Error for a schema that cannot be held so.
grammar::Expr pairs_expr(grammar::Pool* pool, const Json& schema, const CallShape::Pairs& pairs);

// Whether a value of this schema may be a text, and whether it may be anything else.
struct ValueKinds {
  bool text = true, other = true;
};
ValueKinds kinds_of(const Json& schema, const Json& whole);
// Says the same of a property of an object's schema.
ValueKinds kinds_of_property(const Json& schema, const std::string& key);

// What a value means, as JSON: a text, unless it is of a kind that can be read.
std::string value_json(const std::string& value, ValueKinds kinds);

}  // namespace troika::server
