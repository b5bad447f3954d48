#pragma once
/// @file
/// Whether a reduction combines every element in the order of the ranks.

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>

#include "common/comm/collectives/collective_algorithms.hpp"
#include "common/tensor/dtype.hpp"
#include "tests/support/random.hpp"

namespace ultra::test {

/// @brief An order of the ranks' numbers.
enum class RankOrder {
  kOneByOne,  ///< ((x_0 + x_1) + x_2) + ...
  kTree       ///< the tree whose left half is the largest power of two of ranks: (x_0 + x_1) + x_2
};

/// @brief Runs all_reduce and reduce_scatter on `size` ranks, with random numbers whose sums are not
/// exact, and compares every bit with the sum in that order, worked out in one place.
///
/// The array is reduced whole, in pieces cut anywhere, and scattered, in place and not; for sum, average, max and min (no average of i32).
/// @param algorithms  nullptr for the platform's own.
/// @param count       elements of the whole array.
[[nodiscard]] ::testing::AssertionResult reduces_in_rank_order(
    std::shared_ptr<const comm::CollectiveAlgorithms> algorithms, int size, std::size_t count,
    DType dtype, Random& random, RankOrder order = RankOrder::kOneByOne);

}  // namespace ultra::test
