#pragma once
/// @file
/// A training on a mesh of ranks, as a program makes it, and that of one rank, which it must equal.

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/random.hpp"
#include "tests/support/training/rank_runs.hpp"
#include "tests/support/training/short_run.hpp"
#include "tests/support/watchdog.hpp"

namespace ultra::test {

/// @brief Ranks along each axis; those of ep are ranks of dp and cp.
struct Axes {
  std::size_t dp = 1;
  std::size_t pp = 1;
  std::size_t cp = 1;
  std::size_t tp = 1;
  std::size_t ep = 1;

  /// @brief The flags of the axes that have more than one rank.
  [[nodiscard]] std::string flags() const;
};

/// @brief The techniques of a program, new ones at each call.
using MakeTechniques = std::function<train::Techniques()>;

/// @brief A training on a mesh.
struct MeshCase {
  Axes axes = {};
  std::string model = {};            ///< flags of what is computed: the same on one rank
  std::string layout = {};           ///< flags of the chapter: who computes it, and when
  std::string more = {};             ///< flags of other chapters
  std::string note = {};             ///< what no flag says, for messages
  std::size_t micro_batch = 1;       ///< of a replica; options.micro_batch is for one rank
  train::TrainOptions options = {};  ///< of the model and the training
  MakeTechniques techniques = {};    ///< of the program
  MakeTechniques of_one_rank = {};   ///< of one rank's program; empty: the same

  [[nodiscard]] int ranks() const;
  [[nodiscard]] std::string flags() const;
  /// @brief All that a failure has to name.
  [[nodiscard]] std::string str() const;
  /// @brief Sequences of each micro-batch of a single replica.
  [[nodiscard]] std::vector<std::size_t> micro_batches() const;
  /// @brief The program's, but for micro-batches that need not divide the global batch.
  /// @throws what the techniques refuse.
  [[nodiscard]] train::Setup setup() const;
  /// @brief One rank's training of the same model.
  [[nodiscard]] MeshCase one_rank() const;
  /// @brief The training on the ranks of `world`. Collective.
  [[nodiscard]] RankRun run(const Communicator& world) const { return run_of(setup(), world); }
  /// @brief The training of one rank: each rank of `world` makes it by itself.
  [[nodiscard]] RankRun run_alone(const Communicator& world) const {
    return one_rank().run(alone(world));
  }
};

/// @brief What is trained, for messages.
[[nodiscard]] std::string text_of(const train::TrainOptions& options, std::size_t micro_batch);

/// @brief The flags that a program has before those of its techniques: some of these know one.
[[nodiscard]] std::unique_ptr<train::Technique> flags_of_every_trainer();

/// @brief Cuts each rank's share by the rule of the techniques before, into micro-batches of a size that
/// need not divide the global batch.
[[nodiscard]] std::unique_ptr<train::Technique> cutting_into(std::size_t micro_batch);

/// @brief A legal run for that many replicas: each gets at least one sequence, and their shares of
/// the global batch may differ. The micro-batch is one sequence.
/// @param seed  of the run.
[[nodiscard]] train::TrainOptions random_run(Random& random, std::uint64_t seed,
                                             std::size_t replicas, DType dtype);

/// @brief What a chapter asks of the models that it draws.
struct Limits {
  std::size_t head_ranks = 0;         ///< that share the key/value heads; 0: those of tp
  std::size_t most_layers = 3;        ///< at least one
  std::size_t most_head_pairs = 2;    ///< half the width of a head
  std::size_t most_ffn = 5;           ///< features on a rank of tp
  std::size_t sequence_multiple = 1;  ///< what divides the sequence
};

/// @brief A small run that the ranks of a mesh can share: uneven shares of the batch, micro-batches
/// that do not divide them, odd sizes; a sequence of at least one token in each of 2 cp chunks.
[[nodiscard]] MeshCase draw(Random& random, std::uint64_t seed, const Axes& axes, DType dtype,
                            const Limits& limits = {});

/// @brief Random runs on meshes, with a watchdog.
class MeshTest : public RandomTest {
 protected:
  MeshCase draw(const Axes& axes, DType dtype, const Limits& limits = {}) {
    return test::draw(random, seed, axes, dtype, limits);
  }

  /// One replica, two steps.
  MeshCase as_replica(MeshCase c);

  /// Calls `fn` on as many ranks as the case has.
  static void on_mesh(const MeshCase& c, const std::function<void(Communicator&)>& fn,
                      Progress progress = Progress::kThread);

  /// Losses, norms and weights within a relative distance of one rank's, but weights 1e-10 at least;
  /// the same on all ranks.
  static void expect_equals(const Communicator& world, const RankRun& run, const RankRun& one,
                            double relative);
  /// Does nothing once a mesh of this test has differed, but under MPI.
  static void expect_equals_one_rank(const MeshCase& c, double relative = 1e-10);

  /// The summaries of all ranks after a training, where rank 0 ran.
  static std::vector<train::RankSummary> summaries(const MeshCase& c);

 private:
  Watchdog watchdog_{std::chrono::seconds(110)};
};

}  // namespace ultra::test
