// Covers: chapters/03_data_parallel/parameter_server/server_training.hpp
//
// A server or a replica that fails ends all ranks, and nobody waits for ever.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>

#include "common/base/errors.hpp"
#include "tests/chapters/03_data_parallel/parameter_server/served_run.hpp"
#include "tests/support/ranks/rank_fates.hpp"

namespace ultra::data_parallel {
namespace {

using test::run_served;
using test::ServedCase;
using ::testing::HasSubstr;
using ultra::test::Fates;
using ultra::test::is_a;

constexpr double kToldWithin = 20;

class ServerFailure : public test::ServedTest {
 protected:
  ServedCase draw_any() {
    ServedCase c = draw(static_cast<int>(random.between(1, 3)),
                        static_cast<int>(random.between(1, 2)), DType::kF32);
    c.settings.asynchronous = random.pick({false, true});
    c.settings.staleness = random.between(0, 2);
    c.ranks.timeout = std::chrono::seconds(100);
    return c;
  }

  static Fates fates(const ServedCase& c, const std::function<void(Communicator&)>& fn) {
    Fates fates;
    test::quietly([&] { fates = ultra::test::fates_of(c.world_size(), fn, c.ranks); });
    return fates;
  }

  /// One rank threw, and the others were told.
  static void expect_told(const Fates& fates, const ServedCase& c, int guilty,
                          const std::string& message) {
    SCOPED_TRACE(c.str());
    EXPECT_NE(fates.thrown, nullptr);
    for (const auto& [rank, fate] : fates.ranks) {
      SCOPED_TRACE(fmt::format("rank {}: {}", rank, fate.message));
      EXPECT_LT(fate.seconds, kToldWithin);
      EXPECT_THAT(fate.message, HasSubstr(message));
      if (rank == guilty) {
        EXPECT_TRUE(is_a<NumericError>(fate.error));
      } else {
        EXPECT_TRUE(is_a<RankFailed>(fate.error));
      }
    }
  }
};

TEST_F(ServerFailure, AServerThatThrowsEndsAll) {
  for (int round = 0; round < 4; ++round) {
    const ServedCase c = draw_any();
    const int guilty = c.world_size() - 1;
    const std::size_t updates = random.between(0, 20);
    expect_told(fates(c,
                      [&](Communicator& world) {
                        std::size_t made = 0;
                        const auto adamw =
                            [&](const Tensor& value, const Tensor& grad, const Tensor& first_moment,
                                const Tensor& second_moment, const ops::AdamWStep& constants) {
                              if (world.rank() == guilty && made++ == updates) {
                                throw NumericError("this server is broken");
                              }
                              ops::adamw_into(value, grad, first_moment, second_moment, constants);
                            };
                        static_cast<void>(run_served(world, c, {}, optim::adamw({}, adamw)));
                      }),
                c, guilty, "this server is broken");
  }
}

TEST_F(ServerFailure, AReplicaThatThrowsEndsAll) {
  for (int round = 0; round < 4; ++round) {
    const ServedCase c = draw_any();
    const int guilty = c.replicas - 1;
    const std::size_t failing = random.between(1, c.options.steps);
    expect_told(fates(c,
                      [&](Communicator& world) {
                        const auto fail = test::before_steps([&](std::size_t step) {
                          if (world.rank() == guilty && step == failing) {
                            throw NumericError("this replica is broken");
                          }
                        });
                        static_cast<void>(run_served(world, c, fail));
                      }),
                c, guilty, "this replica is broken");
  }
}

TEST_F(ServerFailure, AGradientThatIsNoNumberEndsAll) {
  for (const bool asynchronous : {false, true}) {
    ServedCase c = draw_any();
    c.settings.asynchronous = asynchronous;
    const Fates ends = fates(c, [&](Communicator& world) {
      const auto breaks = [](const Tensor& value, const Tensor&, const Tensor&, const Tensor&,
                             const ops::AdamWStep& constants) {
        if (constants.step == 2) value.fill(std::numeric_limits<double>::quiet_NaN());
      };
      static_cast<void>(run_served(world, c, {}, optim::adamw({}, breaks)));
    });
    EXPECT_NE(ends.thrown, nullptr);
    if (!launched_world_size()) {
      EXPECT_TRUE(is_a<NumericError>(ends.thrown)) << c.str();
    }
    for (const auto& [rank, fate] : ends.ranks) {
      EXPECT_TRUE(is_a<NumericError>(fate.error) || is_a<RankFailed>(fate.error))
          << "rank " << rank << ": " << fate.message;
      EXPECT_THAT(fate.message, HasSubstr("is nan at step"));
      EXPECT_LT(fate.seconds, kToldWithin);
    }
  }
}

}  // namespace
}  // namespace ultra::data_parallel
