// The chapter's promise, through whole training runs: N ranks compute what one rank computes.

#include "chapters/02_collectives/replicated_training.hpp"

#include "chapters/02_collectives/choice/book_algorithms.hpp"
#include "common/base/numeric.hpp"
#include "tests/chapters/02_collectives/replicated_run.hpp"
#include "tests/support/toolbox.hpp"
#include "tests/support/training/mesh_case.hpp"

namespace ultra::collectives {
namespace {

using namespace test;

RankOptions with(std::shared_ptr<const comm::CollectiveAlgorithms> algorithms) {
  RankOptions options;
  options.algorithms = std::move(algorithms);
  return options;
}

RankOptions with_book() { return with(std::make_shared<const BookAlgorithms>()); }

/// Losses, norms and weights of all replicas are the same, bit for bit. Collective.
void expect_equal_replicas(const Communicator& world, const RankRun& run) {
  std::vector<double> all = losses_and_norms(run.result);
  for (const std::vector<double>& weights : run.own) {
    all.insert(all.end(), weights.begin(), weights.end());
  }
  expect_same_on_all(world, all);
}

class Replicated : public RandomTest {
 protected:
  /// A legal run for `ranks` ranks, with one or more micro-batches on each.
  train::TrainOptions random_run(std::size_t ranks) {
    train::TrainOptions options = test::random_run(random, seed, ranks, DType::kF32);
    options.micro_batch = random.between(1, 3);
    options.global_batch = ranks * options.micro_batch * random.between(1, 3);
    return options;
  }

  /// Calls `fn` on each rank, quietly.
  static void on_ranks(std::size_t ranks, const train::TrainOptions& options,
                       const RankOptions& rank_options,
                       const std::function<void(Communicator& world)>& fn) {
    run_quietly(
        fmt::format("{} ranks {}, {}", ranks,
                    rank_options.algorithms ? "by schedules" : "by the platform's collectives",
                    text_of(options, options.micro_batch)),
        checked_cast<int>(ranks), fn, rank_options);
  }
};

TEST_F(Replicated, TrainingEqualsOneRankInF64) {
  for (const std::size_t ranks : {1U, 2U, 3U, 4U}) {
    for (const RankOptions& rank_options : {with_book(), with(nullptr)}) {
      train::TrainOptions options = random_run(ranks);
      options.dtype = DType::kF64;
      on_ranks(ranks, options, rank_options, [&](Communicator& world) {
        const RankRun run = run_replicated(world, options);
        const RankRun one = run_alone(world, options);
        expect_near_losses(run, one, 1e-10);
        expect_near_weights(run, one, 1e-10);
        expect_equal_replicas(world, run);
      });
    }
  }
}

TEST(Shares, MustBeEqual) {
  EXPECT_NO_THROW(expect_equal_shares(12, 2, 3));
  EXPECT_NO_THROW(expect_equal_shares(12, 4, 3));
  EXPECT_THAT(message_of<ConfigError>([] { expect_equal_shares(16, 4, 3); }),
              AllOf(HasSubstr("16 % (3 * 4) = 4"), HasSubstr("multiple of 12")));
  EXPECT_THROW(expect_equal_shares(2, 1, 4), ConfigError) << "fewer sequences than ranks";
  run_ranks(3, [&](Communicator& world) {
    EXPECT_THROW(static_cast<void>(equal_share(16, world)), ConfigError);
  });
}

}  // namespace
}  // namespace ultra::collectives
