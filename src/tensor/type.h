// The element types of a model file, and the size of their blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace troika::tensor {

// Values are those of the GGUF format. A type that has no entry in `type_table` is known by name
// only: files that use it get an error that names it.
enum class Type : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ4_NL = 20,
  kIQ4_XS = 23,
  kBF16 = 30,
  kMXFP4 = 39,
};

struct TypeInfo {
  Type type;
  const char* name;       // "Q4_0"
  uint32_t block_length;  // elements per block
  uint32_t block_bytes;   // bytes per block
};

// All types that this program reads and computes with.
std::span<const TypeInfo> type_table();

// Null where the type is not one that this program computes with.
const TypeInfo* find_type(Type type);
// The same for a type that is known to be supported.
const TypeInfo& type_info(Type type);

// By name, in any case ("q4_0"); empty if unknown.
std::optional<Type> type_from_name(std::string_view name);
// Also names types that are not supported; "an unknown type" for the rest.
const char* type_name(Type type);

// Bytes of a row of `length` elements, which must be a multiple of the block length.
size_t row_bytes(Type type, size_t length);

}  // namespace troika::tensor
