#pragma once
/// @file
/// Training runs on a mesh, as a program makes them: what the tests of all axes share.
///
/// A case has `str()`, `ranks()`, `setup()`, `micro_batch` of a replica, and `options`.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <memory>
#include <vector>

#include "chapters/03_data_parallel/batch_shares.hpp"
#include "tests/chapters/02_collectives/run_comparison.hpp"
#include "tests/support/random_run.hpp"
#include "tests/support/watchdog.hpp"

namespace ultra::data_parallel::test {

/// @brief Cuts each rank's share into micro-batches of a size that need not divide the global batch.
[[nodiscard]] inline train::CutRule cut_into(std::size_t micro_batch) {
  return [micro_batch](const train::BatchShare& share, std::size_t) {
    return cut_share(share, micro_batch);
  };
}

/// @brief cut_into() as a technique.
[[nodiscard]] inline std::unique_ptr<train::Technique> cutting_into(std::size_t micro_batch) {
  return ultra::test::putting([cut = cut_into(micro_batch)](train::Ingredients& ingredients) {
    ingredients.cut.offer(cut);
  });
}

/// @brief The flags that a program has before those of its techniques: some of these know one.
class TrainFlags : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup& setup) override { setup.train.add_to(app); }
};

/// @brief TrainFlags, for a list.
[[nodiscard]] inline std::unique_ptr<train::Technique> flags_of_every_trainer() {
  return std::make_unique<TrainFlags>();
}

/// @brief Sequences of each micro-batch of a single replica.
template <class Case>
[[nodiscard]] std::vector<std::size_t> micro_batches(const Case& c) {
  std::vector<std::size_t> sizes;
  for (std::size_t begin = 0; begin < c.options.global_batch; begin += c.micro_batch) {
    sizes.push_back(std::min(c.micro_batch, c.options.global_batch - begin));
  }
  return sizes;
}

/// @brief Random runs on meshes, with a watchdog.
class MeshTest : public ultra::test::RandomTest {
 protected:
  /// One replica of a case that draw() makes, two steps.
  template <class Case>
  Case as_replica(Case c) {
    c.options.steps = 2;
    c.micro_batch = random.between(1, c.options.global_batch);
    return c;
  }

  /// Calls `fn` on as many ranks as the case has.
  template <class Case>
  static void on_mesh(const Case& c, const std::function<void(Communicator&)>& fn,
                      Progress progress = Progress::kThread) {
    SCOPED_TRACE(c.str());
    RankOptions options = c.setup().rank_options();
    options.timeout = std::chrono::seconds(100);  // a hang would be one
    options.progress = progress;
    train::test::quietly([&] { run_ranks(c.ranks(), fn, options); });
    if (HasFailure()) std::printf("%s\n", c.str().c_str());
  }

  /// Losses, norms and weights within a relative distance of one rank's; the same on all ranks.
  static void expect_equals(const Communicator& world, const ultra::test::RankRun& run,
                            const ultra::test::RankRun& one, double relative) {
    collectives::test::expect_near_losses(run, one, relative);
    collectives::test::expect_near_norms(run, one, relative);
    collectives::test::expect_near_weights(run, one, relative);
    EXPECT_THAT(run.written, ::testing::Each(::testing::Eq(1.0)))
        << "every element is saved by one rank";
    train::test::expect_same_on_all(world, collectives::test::losses_and_norms(run.result));
  }

  /// The summaries of all ranks after a training, where rank 0 ran.
  template <class Case>
  static std::vector<train::RankSummary> summaries(const Case& c) {
    std::vector<train::RankSummary> ranks;
    const auto keep = [&](Communicator& world) {
      const train::TrainResult result = train::train_with(c.setup(), world);
      if (world.rank() == 0) ranks = result.ranks;
    };
    on_mesh(c, keep, Progress::kOnCall);
    return ranks;
  }

 private:
  ultra::test::Watchdog watchdog_{std::chrono::seconds(110)};
};

}  // namespace ultra::data_parallel::test
