// Names the element types of a model file, and the size of their blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace troika::tensor {

// The values are those of the GGUF format. A type that has no entry in `type_table` is known by
// name only: files that use it get an error that names it.
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

// Lists all types that this program reads and computes with.
inline constexpr TypeInfo kTypeTable[] = {
    {Type::kF32, "F32", 1, 4},           {Type::kF16, "F16", 1, 2},
    {Type::kBF16, "BF16", 1, 2},         {Type::kQ4_0, "Q4_0", 32, 18},
    {Type::kQ4_1, "Q4_1", 32, 20},       {Type::kQ5_0, "Q5_0", 32, 22},
    {Type::kQ5_1, "Q5_1", 32, 24},       {Type::kQ8_0, "Q8_0", 32, 34},
    {Type::kQ2_K, "Q2_K", 256, 84},      {Type::kQ3_K, "Q3_K", 256, 110},
    {Type::kQ4_K, "Q4_K", 256, 144},     {Type::kQ5_K, "Q5_K", 256, 176},
    {Type::kQ6_K, "Q6_K", 256, 210},     {Type::kIQ4_NL, "IQ4_NL", 32, 18},
    {Type::kIQ4_XS, "IQ4_XS", 256, 136}, {Type::kMXFP4, "MXFP4", 32, 17},
};
inline std::span<const TypeInfo> type_table() { return kTypeTable; }

// Says whether each element stands for itself, without a block around it.
constexpr bool is_float(Type type) {
  return type == Type::kF32 || type == Type::kF16 || type == Type::kBF16;
}

// Returns null where this program does not compute with the type.
const TypeInfo* find_type(Type type);
// Returns the entry of a type that is known to be supported.
const TypeInfo& type_info(Type type);

// Finds a type by its name, in any case ("q4_0"); empty if unknown.
std::optional<Type> type_from_name(std::string_view name);
// Names types that are not supported too; "an unknown type" for the rest.
const char* type_name(Type type);

// Returns the bytes of a row of `length` elements, which must be a multiple of the block length.
size_t row_bytes(Type type, size_t length);

}  // namespace troika::tensor
