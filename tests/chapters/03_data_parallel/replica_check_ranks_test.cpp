// Replicas that drift apart are found, and named.

#include "chapters/03_data_parallel/replica_check.hpp"

#include <set>

#include "common/comm/run_ranks.hpp"
#include "tests/common/train/run/rank_frame.hpp"
#include "tests/exercises/03_data_parallel/replica.hpp"
#include "tests/support/ranks/rank_fates.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

using namespace test;

class Checksum : public RandomTest {};

TEST_F(Checksum, AnyChangedBitChangesIt) {
  for (const std::size_t count : {1U, 2U, 3U, 7U, 8U, 9U, 16U, 31U, 64U, 67U}) {
    const Tensor tensor = random.tokens(device, {count}, 1000);
    const std::uint64_t before = checksum(tensor);
    for (std::int32_t& element : tensor.span<std::int32_t>()) {
      for (int bit = 0; bit < 31; ++bit) {
        element ^= 1 << bit;
        EXPECT_NE(checksum(tensor), before) << count << " elements, bit " << bit;
        element ^= 1 << bit;
      }
    }
    EXPECT_EQ(checksum(tensor), before);
  }
}

TEST_F(Checksum, TheOrderCounts) {
  std::set<std::uint64_t> sums;
  constexpr std::size_t kCount = 40;
  for (std::size_t place = 0; place < kCount; ++place) {
    const Tensor tensor = Tensor::zeros(device, {kCount}, DType::kF64);
    tensor.span<double>()[place] = 1.0;
    sums.insert(checksum(tensor));
  }
  EXPECT_EQ(sums.size(), kCount);
}

TEST_F(Checksum, TheSizeCounts) {
  std::set<std::uint64_t> sums;
  for (std::size_t count = 0; count < 40; ++count) {
    sums.insert(checksum(Tensor::zeros(device, {count}, DType::kF32)));
  }
  EXPECT_EQ(sums.size(), 40U);
}

TEST_F(Checksum, ViewsCountByTheirElements) {
  const Tensor tensor = random.tensor(device, {6, 5}, DType::kF32);
  const Tensor part = tensor.slice(0, {1, 3});
  EXPECT_EQ(checksum(part), checksum(part.clone()));
  EXPECT_EQ(checksum(part.view({10})), checksum(part));
  EXPECT_THROW(static_cast<void>(checksum(tensor.transpose(0, 1))), ShapeError);
}

class ReplicaCheck : public RandomTest {
 protected:
  /// Adds the smallest step to one element of a parameter.
  static void nudge(nn::Model& model, std::size_t parameter, std::size_t element) {
    float& value = model.parameters()[parameter]->value().span<float>()[element];
    value = std::nextafter(value, 10.0F);
  }

  /// Runs the check on `replicas` ranks after `disturb(model, rank)`; returns the ranks' ends.
  template <class Disturb>
  Fates check(int replicas, const Disturb& disturb) {
    return fates_of(replicas, [&](Communicator& dp) {
      Replica replica(config, DType::kF32, seed);
      disturb(replica.model, dp.rank());
      expect_equal_replicas(replica.model.parameters(), dp, 12);
    });
  }

  std::string name_of(std::size_t parameter) {
    return Replica(config, DType::kF32, seed).model.parameters()[parameter]->name();
  }

  nn::ModelConfig config = random_config(random);
};

TEST_F(ReplicaCheck, NamesTheParameterAndTheRankThatDiffersFromTheMajority) {
  const std::size_t parameter = random.between(0, 5);
  const Fates fates = check(4, [&](nn::Model& model, int rank) {
    if (rank == 2) nudge(model, parameter, model.parameters()[parameter]->count() - 1);
  });
  for (const auto& [rank, fate] : fates.ranks) {
    EXPECT_TRUE(is_a<ReplicaDrift>(fate.error)) << "rank " << rank << ": " << fate.message;
    EXPECT_THAT(fate.message,
                HasSubstr(fmt::format("replicas drifted apart after step 12: {} on rank 2 differs "
                                      "from ranks 0, 1, 3.",
                                      name_of(parameter))));
  }
}

TEST_F(ReplicaCheck, WithoutAMajorityTheFirstRankIsTheMeasure) {
  const Fates two = check(2, [&](nn::Model& model, int rank) {
    if (rank == 0) nudge(model, 0, 0);
  });
  for (const auto& [rank, fate] : two.ranks) {
    EXPECT_THAT(fate.message, HasSubstr("on rank 1 differs from rank 0."));
  }
  const Fates all = check(3, [&](nn::Model& model, int rank) {
    for (int i = 0; i < rank; ++i) nudge(model, 0, 0);
  });
  for (const auto& [rank, fate] : all.ranks) {
    EXPECT_THAT(fate.message, HasSubstr("on ranks 1, 2 differ from rank 0."));
  }
}

TEST_F(ReplicaCheck, CountsTheOtherParametersThatDiffer) {
  const Fates fates = check(3, [&](nn::Model& model, int rank) {
    if (rank == 1) nudge(model, 1, 0);
    if (rank == 2) nudge(model, 3, 0);
    if (rank == 0) nudge(model, 4, 0);
  });
  for (const auto& [rank, fate] : fates.ranks) {
    EXPECT_THAT(fate.message, AllOf(HasSubstr(name_of(1) + " on rank 1 differs from ranks 0, 2"),
                                    HasSubstr("and 2 more parameters")));
  }
}

TEST_F(ReplicaCheck, RanksAreCountedInTheWorld) {
  const Fates fates = fates_of(4, [&](Communicator& world) {
    const Communicator dp = world.split([](int rank) { return rank % 2; }, "dp");
    Replica replica(config, DType::kF32, seed);
    if (world.rank() == 3) nudge(replica.model, 0, 0);
    expect_equal_replicas(replica.model.parameters(), dp, 1);
  });
  for (const int rank : {1, 3}) {               // the others may end before they hear of it
    if (!fates.ranks.contains(rank)) continue;  // another process
    EXPECT_THAT(fates.ranks.at(rank).message, HasSubstr("on rank 3 differs from rank 1"));
  }
}

TEST_F(ReplicaCheck, SendsEightBytesPerParameterToEachOtherRank) {
  for (const int replicas : {1, 2, 3, 5}) {
    run_ranks(replicas, [&](Communicator& dp) {
      const Replica replica(config, DType::kF32, seed);
      expect_equal_replicas(replica.model.parameters(), dp, 1);
      const auto others = static_cast<std::size_t>(replicas) - 1;
      EXPECT_EQ(dp.stats()[OpKind::kAllGather],
                (CommStats::PerKind{1, 8 * others * replica.model.parameters().size()}));
      EXPECT_EQ(dp.stats().sent_bytes(), dp.stats()[OpKind::kAllGather].sent_bytes);
    });
  }
}

TEST_F(ReplicaCheck, AnObserverChecksEverySoManySteps) {
  const train::TrainOptions options = short_run();
  run_ranks(2, [&](Communicator& dp) {
    Replica replica(config, DType::kF32, seed);
    const train::test::RankFrame frame(options, dp);
    const auto observer =
        check_replicas({frame.context, *frame.plan, {&replica.model}}, /*every=*/3);
    const auto checks = [&] { return dp.stats()[OpKind::kAllGather].operations; };
    for (std::size_t step = 1; step <= 8; ++step) {
      if (step == 7 && dp.rank() == 1) nudge(replica.model, 0, 0);
      observer->step_begins({.step = step, .learning_rate = 0.0});
      observer->step_ends({.step = step, .learning_rate = 0.0});
      EXPECT_EQ(checks(), step / 3);
    }
    EXPECT_THAT(
        message_of<ReplicaDrift>([&] { observer->step_ends({.step = 9, .learning_rate = 0.0}); }),
        AllOf(HasSubstr("after step 9"), HasSubstr("on rank 1 differs from rank 0"),
              Not(HasSubstr("more parameter"))));
  });
}

}  // namespace
}  // namespace ultra::data_parallel
