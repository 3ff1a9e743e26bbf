#include "tensor/type.h"

#include <cctype>

#include "base/error.h"

namespace troika::tensor {
namespace {

struct KnownName {
  uint32_t value;
  const char* name;
};

// Lists the types that may stand in a file but that this program cannot compute with.
constexpr KnownName kOtherNames[] = {
    {9, "Q8_1"},        {15, "Q8_K"},     {16, "IQ2_XXS"},  {17, "IQ2_XS"},     {18, "IQ3_XXS"},
    {19, "IQ1_S"},      {21, "IQ3_S"},    {22, "IQ2_S"},    {24, "I8"},         {25, "I16"},
    {26, "I32"},        {27, "I64"},      {28, "F64"},      {29, "IQ1_M"},      {34, "TQ1_0"},
    {31, "Q4_0_4_4"},   {32, "Q4_0_4_8"}, {33, "Q4_0_8_8"}, {36, "IQ4_NL_4_4"}, {37, "IQ4_NL_4_8"},
    {38, "IQ4_NL_8_8"}, {35, "TQ2_0"},    {40, "NVFP4"},    {41, "Q1_0"},       {42, "Q2_0"},
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

const TypeInfo* find_type(Type type) {
  for (const TypeInfo& info : kTypeTable) {
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
  for (const TypeInfo& info : kTypeTable) {
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
