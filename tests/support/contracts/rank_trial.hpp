#pragma once
/// @file
/// Collectives carried out for real: on ranks of this process, through a Communicator with the
/// algorithms under test injected.

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <memory>

#include "common/comm/collectives/collective_algorithms.hpp"
#include "common/comm/engine/operation.hpp"

namespace ultra::test {

/// @brief Runs one collective on `size` ranks, on f64 tensors whose values tell where they come
/// from, and compares every rank's result with that of the platform's own algorithm.
/// @param op     any collective.
/// @param count  elements of the whole operation; for gather, scatter and all_to_all, of each part.
/// @param root   where the operation has one.
[[nodiscard]] ::testing::AssertionResult holds_on_ranks(
    OpKind op, std::shared_ptr<const comm::CollectiveAlgorithms> algorithms, int size,
    std::size_t count, int root = 0);

}  // namespace ultra::test
