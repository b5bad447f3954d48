// Gradients added up in two bytes over many micro-batches drift away from their sum.
//
// Covers: chapters/10_mixed_precision/training/sum_drift.hpp

#include "chapters/10_mixed_precision/training/sum_drift.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/random.hpp"

namespace ultra::mixed_precision {
namespace {

using SumDriftTest = ultra::test::RandomTest;

// Rounded to nearest, a number of p bits moves by at most 2^-p of itself.
TEST_F(SumDriftTest, RoundingOnceCostsOneRounding) {
  for (const std::size_t n : {1U, 64U, 256U}) {
    EXPECT_LE(sum_drift(n, DType::kBF16, seed).rounded_once, 0x1p-8) << n;
    EXPECT_LE(sum_drift(n, DType::kF16, seed).rounded_once, 0x1p-11) << n;
  }
}

TEST_F(SumDriftTest, RoundingEachTimeGrowsWithTheMicroBatches) {
  const SumDrift one = sum_drift(1, DType::kBF16, seed);
  EXPECT_EQ(one.rounded_each, 0.0) << "the sum of one is it";
  const SumDrift sixteen = sum_drift(16, DType::kBF16, seed);
  const SumDrift sixty_four = sum_drift(64, DType::kBF16, seed);
  const SumDrift many = sum_drift(1024, DType::kBF16, seed);
  EXPECT_GT(sixty_four.rounded_each, 2 * sixty_four.rounded_once);
  EXPECT_GT(sixty_four.rounded_each, sixteen.rounded_each);
  EXPECT_GT(many.rounded_each, 2 * sixty_four.rounded_each);
  EXPECT_LE(sixty_four.rounded_each, 64 * 0x1p-8) << "as if all roundings went one way";
}

// Three more bits: an eighth of the error.
TEST_F(SumDriftTest, MoreBitsDriftLess) {
  const double bf16 = sum_drift(64, DType::kBF16, seed).rounded_each;
  const double f16 = sum_drift(64, DType::kF16, seed).rounded_each;
  EXPECT_GT(bf16, 6 * f16);
  EXPECT_LT(bf16, 11 * f16);
}

TEST_F(SumDriftTest, TheTableHasSixRows) {
  const std::string table = sum_drift_table(seed);
  for (const char* row : {"  1  ", "  4  ", "  16  ", "  64  ", "  256  ", "  1024  "}) {
    EXPECT_THAT(table, ::testing::HasSubstr(row));
  }
}

}  // namespace
}  // namespace ultra::mixed_precision
