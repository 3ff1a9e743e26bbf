// One metadata value of a GGUF file. Strings and arrays are views into the file's bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "base/function_ref.h"

namespace troika::gguf {

enum class ValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// Returns "uint8", "string", ..., or "unknown" for a value that is no type.
const char* value_type_name(ValueType type);
// Returns the bytes of one value; 0 for strings and arrays, whose size varies, and for unknown
// types.
size_t value_type_bytes(ValueType type);

// An array whose elements have been walked once and found to lie inside the file.
struct Array {
  ValueType element_type;
  uint64_t count;
  std::span<const std::byte> bytes;  // the elements, as they stand in the file
};

struct Value {
  ValueType type;
  // Has unsigned and bool values as uint64_t, signed ones as int64_t, both float types as double.
  std::variant<uint64_t, int64_t, double, std::string_view, Array> data;
};

// Calls visit(element) for the first elements of an array, at most `limit` of them. Elements of an
// array of arrays are arrays. One is held at a time: a value takes up to 48 times the bytes that it
// has in the file.
void for_each_element(const Array& array, uint64_t limit, FunctionRef<void(const Value&)> visit);
// Returns the first elements of an array, at most `limit` of them, which must be a number that this
// program chose.
std::vector<Value> elements(const Array& array, uint64_t limit);

class Cursor;

// Reads one value of this type, checks everything in it, and leaves the cursor behind it. Throws
// Error; `key` stands in the message.
Value read_value(Cursor& cursor, ValueType type, std::string_view key);

}  // namespace troika::gguf
