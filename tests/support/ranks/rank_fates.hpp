#pragma once
/// @file
/// What each rank of a run that fails ended with.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <map>
#include <string>

#include "common/comm/comm_error.hpp"
#include "common/comm/run_ranks.hpp"

namespace ultra::test {

/// @brief What a rank's function ended with.
struct Fate {
  std::exception_ptr error;  ///< null when it returned
  std::string message;       ///< of the error
  double seconds = 0;        ///< from the start of the run to its end
};

/// @brief What a run ended with.
struct Fates {
  /// By rank: all of them, but under mpirun only this process's own, if it took part.
  std::map<int, Fate> ranks;
  std::exception_ptr thrown;  ///< by run_ranks; null when it returned
};

/// @brief Calls run_ranks and catches what the ranks and it throw.
[[nodiscard]] Fates fates_of(int world_size, const std::function<void(Communicator&)>& fn,
                             const RankOptions& options = {});

/// @brief Whether an error is an E.
template <class E>
[[nodiscard]] bool is_a(const std::exception_ptr& error) {
  if (!error) return false;
  try {
    std::rethrow_exception(error);
  } catch (const E&) {
    return true;
  } catch (...) {
    return false;
  }
}

/// @brief How soon ranks are told that one has failed, in seconds, on a busy machine.
inline constexpr double kToldWithin = 20;

/// @brief One rank threw an E with this message, and the others were told. @param of  the run, in words.
template <class E>
void expect_told(const Fates& fates, const std::string& of, int guilty,
                 const std::string& message) {
  SCOPED_TRACE(of);
  EXPECT_NE(fates.thrown, nullptr);
  for (const auto& [rank, fate] : fates.ranks) {
    SCOPED_TRACE(fmt::format("rank {}: {}", rank, fate.message));
    EXPECT_LT(fate.seconds, kToldWithin);
    EXPECT_THAT(fate.message, ::testing::HasSubstr(message));
    EXPECT_EQ(is_a<E>(fate.error), rank == guilty);
    EXPECT_EQ(is_a<RankFailed>(fate.error), rank != guilty);
  }
}

}  // namespace ultra::test
