#include "gguf/value.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/os_error.h"
#include "gguf/cursor.h"

namespace troika::gguf {
namespace {

// No tool writes arrays nested deeper than this; the limit keeps the recursion small.
constexpr int kMaxArrayDepth = 8;

[[noreturn]] void fail(const Cursor& cursor, std::string_view key, std::string_view problem) {
  throw Error(fmt::format(
      "{}: the value of {} {} (at byte {}). The file is damaged; download or convert it again.",
      cursor.name(), quoted(key), problem, cursor.position()));
}

Value read_at_depth(Cursor& cursor, ValueType type, std::string_view key, int depth);

// Checks each element without keeping any: memory never depends on a count from the file.
Array read_array(Cursor& cursor, std::string_view key, int depth) {
  const auto element_type = static_cast<ValueType>(cursor.read<uint32_t>(key));
  const auto count = cursor.read<uint64_t>(key);
  Array array{element_type, count, {}};
  if (const size_t size = value_type_bytes(element_type); size > 0) {
    if (count > cursor.remaining() / size) {
      fail(cursor, key, fmt::format("claims {} elements, more than the file holds", count));
    }
    array.bytes = cursor.take(count * size, key);
    const auto wrong = [](std::byte b) { return std::to_integer<int>(b) > 1; };
    if (element_type == ValueType::kBool &&
        std::any_of(array.bytes.begin(), array.bytes.end(), wrong)) {
      fail(cursor, key, "has a bool that is neither 0 nor 1");
    }
    return array;
  }
  if (element_type != ValueType::kString && element_type != ValueType::kArray) {
    fail(cursor, key,
         fmt::format("has elements of unknown type {}", static_cast<uint32_t>(element_type)));
  }
  if (depth >= kMaxArrayDepth) {
    fail(cursor, key, fmt::format("has arrays nested deeper than {}", kMaxArrayDepth));
  }
  const uint64_t start = cursor.position();
  Cursor before = cursor;
  for (uint64_t i = 0; i < count; ++i) read_at_depth(cursor, element_type, key, depth + 1);
  array.bytes = before.take(cursor.position() - start, key);
  return array;
}

Value read_at_depth(Cursor& cursor, ValueType type, std::string_view key, int depth) {
  switch (type) {
    case ValueType::kUint8:
      return {type, uint64_t{cursor.read<uint8_t>(key)}};
    case ValueType::kUint16:
      return {type, uint64_t{cursor.read<uint16_t>(key)}};
    case ValueType::kUint32:
      return {type, uint64_t{cursor.read<uint32_t>(key)}};
    case ValueType::kUint64:
      return {type, cursor.read<uint64_t>(key)};
    case ValueType::kInt8:
      return {type, int64_t{cursor.read<int8_t>(key)}};
    case ValueType::kInt16:
      return {type, int64_t{cursor.read<int16_t>(key)}};
    case ValueType::kInt32:
      return {type, int64_t{cursor.read<int32_t>(key)}};
    case ValueType::kInt64:
      return {type, cursor.read<int64_t>(key)};
    case ValueType::kFloat32:
      return {type, double{cursor.read<float>(key)}};
    case ValueType::kFloat64:
      return {type, cursor.read<double>(key)};
    case ValueType::kBool: {
      const auto byte = cursor.read<uint8_t>(key);
      if (byte > 1) fail(cursor, key, "is a bool that is neither 0 nor 1");
      return {type, uint64_t{byte}};
    }
    case ValueType::kString:
      return {type, cursor.read_string(key)};
    case ValueType::kArray:
      return {type, read_array(cursor, key, depth)};
  }
  fail(cursor, key, fmt::format("has the unknown type {}", static_cast<uint32_t>(type)));
}

}  // namespace

const char* value_type_name(ValueType type) {
  constexpr const char* kNames[] = {"uint8",  "int8",    "uint16", "int16",  "uint32",
                                    "int32",  "float32", "bool",   "string", "array",
                                    "uint64", "int64",   "float64"};
  const auto index = static_cast<uint32_t>(type);
  return index < std::size(kNames) ? kNames[index] : "unknown";
}

size_t value_type_bytes(ValueType type) {
  constexpr size_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  const auto index = static_cast<uint32_t>(type);
  return index < std::size(kBytes) ? kBytes[index] : 0;
}

Value read_value(Cursor& cursor, ValueType type, std::string_view key) {
  return read_at_depth(cursor, type, key, 0);
}

void for_each_element(const Array& array, uint64_t limit, FunctionRef<void(const Value&)> visit) {
  // The bytes are checked again, because a file that is cut short while mapped reads as zeros.
  Cursor cursor(array.bytes, "The model file");
  const uint64_t count = std::min(array.count, limit);
  for (uint64_t i = 0; i < count; ++i) {
    visit(read_value(cursor, array.element_type, "an array element"));
  }
}

std::vector<Value> elements(const Array& array, uint64_t limit) {
  std::vector<Value> values;
  for_each_element(array, limit, [&](const Value& value) { values.push_back(value); });
  return values;
}

}  // namespace troika::gguf
