#include "tensor/type.h"

#include <gtest/gtest.h>

namespace troika::tensor {
namespace {

TEST(Type, NamesAreFoundInAnyCase) {
  EXPECT_EQ(type_from_name("q4_k"), Type::kQ4_K);
  EXPECT_EQ(type_from_name("BF16"), Type::kBF16);
  EXPECT_EQ(type_from_name("q9"), std::nullopt);
}

TEST(Type, EveryTypeOfTheTableIsFoundByItsNameAndValue) {
  for (const TypeInfo& info : type_table()) {
    EXPECT_EQ(type_from_name(info.name), info.type);
    EXPECT_EQ(find_type(info.type), &info);
  }
}

TEST(Type, UnsupportedTypesHaveANameButNoEntry) {
  EXPECT_EQ(find_type(static_cast<Type>(16)), nullptr);
  EXPECT_STREQ(type_name(static_cast<Type>(16)), "IQ2_XXS");
  EXPECT_STREQ(type_name(static_cast<Type>(4711)), "an unknown type");
}

TEST(Type, RowBytes) {
  EXPECT_EQ(row_bytes(Type::kQ4_0, 64), 36u);
  EXPECT_EQ(row_bytes(Type::kQ6_K, 512), 420u);
  EXPECT_EQ(row_bytes(Type::kF16, 3), 6u);
}

}  // namespace
}  // namespace troika::tensor
