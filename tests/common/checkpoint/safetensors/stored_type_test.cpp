#include "common/checkpoint/safetensors/stored_type.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace ultra::checkpoint {
namespace {

TEST(StoredTypes, HaveNamesThatLeadBackToThem) {
  std::set<std::string> names;
  for (const StoredType type : kStoredTypes) {
    EXPECT_EQ(parse_stored_type(to_string(type)), type) << to_string(type);
    names.emplace(to_string(type));
  }
  EXPECT_EQ(names.size(), kStoredTypes.size());
  EXPECT_EQ(parse_stored_type("F31"), std::nullopt);
  EXPECT_EQ(parse_stored_type(""), std::nullopt);
}

TEST(StoredTypes, AreListedInTheOrderOfTheirNumbers) {
  for (std::size_t i = 0; i < kStoredTypes.size(); ++i) {
    EXPECT_EQ(static_cast<std::size_t>(kStoredTypes[i]), i);
  }
}

TEST(StoredTypes, MatchTheDTypesOfTensors) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kI32, DType::kBF16, DType::kF16}) {
    const StoredType type = stored_type_for(dtype);
    EXPECT_EQ(dtype_for(type), dtype);
    EXPECT_EQ(size_of(type), size_of(dtype));
  }
  EXPECT_EQ(stored_type_for(DType::kF32), StoredType::kF32);
  EXPECT_EQ(stored_type_for(DType::kF64), StoredType::kF64);
  EXPECT_EQ(stored_type_for(DType::kI32), StoredType::kI32);
  EXPECT_EQ(stored_type_for(DType::kBF16), StoredType::kBF16);
  EXPECT_EQ(stored_type_for(DType::kF16), StoredType::kF16);
  int count = 0;
  for (const StoredType type : kStoredTypes) count += dtype_for(type).has_value() ? 1 : 0;
  EXPECT_EQ(count, 5) << "all others have no DType";
}

}  // namespace
}  // namespace ultra::checkpoint
