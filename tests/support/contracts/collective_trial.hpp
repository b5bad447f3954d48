#pragma once
/// @file
/// What each collective promises, checked on any algorithm that writes schedules.
///
/// Values are coded so that a wrong one tells where it came from: reductions sum powers of 8, whose
/// digits count the contributions of each member; everything else moves numbers that name their
/// owner and place. All of them are exact in double.

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "common/comm/collectives/schedule.hpp"
#include "tests/support/contracts/schedule_interpreter.hpp"
#include "tests/support/random.hpp"

namespace ultra::test {

/// @brief An algorithm with all arguments but the member whose steps it gives.
using MakeSchedule = std::function<comm::Schedule(const comm::Group&)>;

/// @brief An algorithm that gives one lane.
using MakeLane = std::function<comm::Lane(const comm::Group&)>;

/// @brief A lane as a schedule.
[[nodiscard]] MakeSchedule one_lane(const MakeLane& make);

/// @brief The members of a group, by position, as ranks of a world.
struct Members {
  std::vector<int> ranks;  ///< rank of each position
  int world_size = 0;      ///< ranks there are

  /// @brief Number of members.
  [[nodiscard]] int size() const { return static_cast<int>(ranks.size()); }
};

/// @brief Position i is rank i.
[[nodiscard]] Members whole_world(int size);

/// @brief A group in a larger world whose positions and ranks differ.
[[nodiscard]] Members scattered(Random& random, int size);

/// @brief The schedules of one collective on one group. Each member function runs them and says
/// whether the collective's promise was kept; afterwards the run can be looked at.
class CollectiveTrial {
 public:
  /// @brief Asks for the schedule of every member. Throws what `make` throws.
  CollectiveTrial(Members members, const MakeSchedule& make);

  [[nodiscard]] ::testing::AssertionResult all_reduce(std::size_t count);
  [[nodiscard]] ::testing::AssertionResult reduce(std::size_t count, int root);
  [[nodiscard]] ::testing::AssertionResult reduce_scatter(const comm::Chunks& chunks);
  [[nodiscard]] ::testing::AssertionResult broadcast(std::size_t count, int root);
  [[nodiscard]] ::testing::AssertionResult gather(const comm::Chunks& chunks, int root);
  [[nodiscard]] ::testing::AssertionResult scatter(const comm::Chunks& chunks, int root);
  [[nodiscard]] ::testing::AssertionResult all_gather(const comm::Chunks& chunks);
  /// @param counts  [from][to] elements.
  [[nodiscard]] ::testing::AssertionResult all_to_all(
      const std::vector<std::vector<std::size_t>>& counts);
  [[nodiscard]] ::testing::AssertionResult barrier();

  /// @brief All members end an all-reduce of random floats with the same bits.
  [[nodiscard]] ::testing::AssertionResult same_bits_everywhere(std::size_t count, Random& random);

  /// @brief What stopped the last run; Fault::kNone when it ran through.
  [[nodiscard]] Fault fault() const { return run_.fault; }
  /// @brief Elements that a position sent to others in the last run.
  [[nodiscard]] std::size_t sent(int position) const;
  /// @brief Rounds of the last run.
  [[nodiscard]] int rounds() const { return run_.rounds; }
  /// @brief Elements that a position's schedule sends to positions of which `counts` is true.
  [[nodiscard]] std::size_t sent_to(int position,
                                    const std::function<bool(int peer)>& counts) const;
  /// @brief The data of a position at the end of the last run.
  [[nodiscard]] const std::vector<double>& data(int position) const;
  /// @brief Number of members.
  [[nodiscard]] int size() const { return members_.size(); }
  /// @brief Whether positions and ranks are the same.
  [[nodiscard]] bool in_whole_world() const { return members_.size() == members_.world_size; }
  /// @brief The position of a rank.
  [[nodiscard]] int position_of(int rank) const;
  /// @brief The schedule of a position.
  [[nodiscard]] const comm::Schedule& schedule(int position) const;

  /// @brief How often each position's contribution is in an element of a reduction's result.
  /// @pre the last run was a reduction of at most 16 members.
  [[nodiscard]] std::vector<int> contributions(double value) const;

 private:
  using Values = std::function<double(int position, std::size_t element)>;
  struct Expected {
    int position;
    Range elements;
  };

  [[nodiscard]] ::testing::AssertionResult run(std::size_t count, const Values& values);
  [[nodiscard]] ::testing::AssertionResult holds(const std::vector<Expected>& places,
                                                 const Values& expected,
                                                 const std::function<std::string(double)>& explain);
  [[nodiscard]] ::testing::AssertionResult moves(std::size_t count, const Values& values,
                                                 const std::vector<Expected>& places,
                                                 const Values& expected);
  [[nodiscard]] ::testing::AssertionResult reduces(std::size_t count,
                                                   const std::vector<Expected>& places);
  [[nodiscard]] std::vector<Expected> everywhere(Range elements) const;
  [[nodiscard]] std::string name_of(int position) const;
  [[nodiscard]] std::string explain_sum(double value) const;

  Members members_;
  std::vector<comm::Schedule> schedules_;  // by rank
  Interpretation<double> run_;
};

/// @brief What a learner may have overlooked when schedules could not be carried out, or when they
/// only work where positions and ranks are the same; empty when neither is the case.
[[nodiscard]] std::string hint_for_stuck(const CollectiveTrial& trial);

/// @brief Group sizes that find what only powers of two, or only small groups, can do; first the
/// one whose failure tells most.
inline constexpr int kGroupSizes[] = {3, 4, 2, 1, 5, 6, 7, 8, 9, 16};

/// @brief Element counts for a group: divisible, prime, fewer than members, none, many, random.
[[nodiscard]] std::vector<std::size_t> counts_for(int size, Random& random);

/// @brief One group and one count.
struct TrialCase {
  Members members;
  std::size_t count;
};

/// @brief Calls check(case) for every group size and count, in the whole world and in a part of a
/// larger one, until a check fails. A failure names the case.
void for_trial_cases(Random& random, std::span<const int> sizes,
                     const std::function<void(const TrialCase&)>& check);

/// @brief Chunks of random sizes, empty ones among them.
[[nodiscard]] comm::Chunks random_chunks(Random& random, int parts);

/// @brief Chunks of a case: equal ones where the members divide the count, as in the first case of
/// each group, whose failure tells most; else even or random ones.
[[nodiscard]] comm::Chunks chunks_for(const TrialCase& c, Random& random);

}  // namespace ultra::test
