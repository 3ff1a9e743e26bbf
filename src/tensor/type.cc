#include "tensor/type.h"

#include <array>
#include <cctype>

#include "base/error.h"

namespace troika::tensor {
namespace {

constexpr std::array<TypeInfo, 8> kTypes = {{
    {Type::kF32, "F32", 1, 4},
    {Type::kF16, "F16", 1, 2},
    {Type::kBF16, "BF16", 1, 2},
    {Type::kQ4_0, "Q4_0", 32, 18},
    {Type::kQ5_0, "Q5_0", 32, 22},
    {Type::kQ8_0, "Q8_0", 32, 34},
    {Type::kQ4_K, "Q4_K", 256, 144},
    {Type::kQ6_K, "Q6_K", 256, 210},
}};

struct KnownName {
  uint32_t value;
  const char* name;
};

// Types that may stand in a file but cannot be computed with here.
constexpr KnownName kOtherNames[] = {
    {3, "Q4_1"},   {7, "Q5_1"},     {9, "Q8_1"},    {10, "Q2_K"},    {11, "Q3_K"},  {13, "Q5_K"},
    {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"}, {20, "IQ4_NL"},
    {21, "IQ3_S"}, {22, "IQ2_S"},   {23, "IQ4_XS"}, {24, "I8"},      {25, "I16"},   {26, "I32"},
    {27, "I64"},   {28, "F64"},     {29, "IQ1_M"},  {34, "TQ1_0"},   {35, "TQ2_0"}, {39, "MXFP4"},
};

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::toupper(static_cast<unsigned char>(a[i])) !=
        std::toupper(static_cast<unsigned char>(b[i]))) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::span<const TypeInfo> type_table() { return kTypes; }

const TypeInfo* find_type(Type type) {
  for (const TypeInfo& info : kTypes) {
    if (info.type == type) return &info;
  }
  return nullptr;
}

const TypeInfo& type_info(Type type) {
  const TypeInfo* info = find_type(type);
  TROIKA_ASSERT(info != nullptr);
  return *info;
}

std::optional<Type> type_from_name(std::string_view name) {
  for (const TypeInfo& info : kTypes) {
    if (equal_ignoring_case(info.name, name)) return info.type;
  }
  return std::nullopt;
}

const char* type_name(Type type) {
  if (const TypeInfo* info = find_type(type)) return info->name;
  for (const KnownName& known : kOtherNames) {
    if (known.value == static_cast<uint32_t>(type)) return known.name;
  }
  return "an unknown type";
}

size_t row_bytes(Type type, size_t length) {
  const TypeInfo& info = type_info(type);
  TROIKA_ASSERT(length % info.block_length == 0);
  return length / info.block_length * info.block_bytes;
}

}  // namespace troika::tensor
