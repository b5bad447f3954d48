#pragma once
/// @file
/// What tests of exercises on ranks share: runs whose failures name their case, collectives that
/// add in the order of the ranks, and memory full of NaN.

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "common/base/errors.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::test {

/// @brief Calls `fn` once per rank. What a rank throws fails the test, and says `hint`; what a rank
/// expects in vain is followed by the case and the seed, which its thread does not know.
inline void on_ranks(int ranks, const std::string& what,
                     const std::function<void(Communicator& dp)>& fn,
                     const RankOptions& options = {}, const std::string& hint = "") {
  const bool failed_before = ::testing::Test::HasFailure();
  try {
    run_ranks(ranks, fn, options);
  } catch (const NotWritten&) {
    throw;
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what() << "\n" << hint;
  }
  if (!failed_before && ::testing::Test::HasFailure()) {
    ADD_FAILURE() << "on " << ranks << " ranks: " << what;
  }
}

/// @brief Reductions that add in the order of the ranks, wherever an element stands: their bits are
/// those of a loop over the ranks.
inline RankOptions in_rank_order() {
  RankOptions options;
  options.algorithms = std::make_shared<const collectives::BookAlgorithms>(collectives::BookOptions{
      .names = {{OpKind::kAllReduce, "pairwise"}, {OpKind::kReduceScatter, "pairwise"}},
      .tuning = {}});
  return options;
}

/// @brief The options without a progress thread: memory is free as soon as the rank lets go of it.
inline RankOptions on_call(RankOptions options = {}) {
  options.progress = Progress::kOnCall;
  return options;
}

/// @brief Every rank but 0 comes late, so that what rank 0 does not wait for cannot be there.
inline void come_late(const Communicator& dp) {
  if (dp.rank() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(30));
}

/// @brief What a call costs the rank that makes it.
struct RankCost {
  std::size_t sent_bytes = 0;  ///< by a communicator and those that were split off it
  std::size_t peak_bytes = 0;  ///< of memory, beyond those in use before
};

/// @brief Makes a call, and says what it cost.
inline RankCost cost_of(const Communicator& ranks, const Device& device,
                        const std::function<void()>& call) {
  const std::size_t sent = ranks.stats().sent_bytes();
  const std::size_t in_use = device.memory().current().total();
  device.reset_memory_peaks();
  call();
  return {ranks.stats().sent_bytes() - sent, device.memory().peak_total().bytes - in_use};
}

/// @brief Leaves NaN in the free blocks of the device's pool that hold `count` elements.
inline void leave_garbage(const Device& device, std::size_t count, DType dtype) {
  std::vector<Tensor> blocks;
  for (int i = 0; i < 4; ++i) {
    blocks.push_back(Tensor::empty(device, {count}, dtype));
    blocks.back().fill(std::numeric_limits<double>::quiet_NaN());
  }
}

/// @brief A whole number in [-8, 8] that depends on everything given: sums of some are exact.
inline double whole_number(std::uint64_t seed, int rank, std::size_t array, std::size_t element) {
  std::uint64_t x = seed;
  for (const std::uint64_t salt :
       {static_cast<std::uint64_t>(rank), std::uint64_t{array}, std::uint64_t{element}}) {
    x = (x ^ (salt + 0x9e3779b97f4a7c15U)) * 0xbf58476d1ce4e5b9U;
    x ^= x >> 29U;
  }
  return static_cast<double>(x % 17) - 8.0;
}

}  // namespace ultra::test
