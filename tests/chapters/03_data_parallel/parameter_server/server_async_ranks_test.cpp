// An asynchronous parameter server: how far replicas run ahead, and what becomes of the numbers.

#include <atomic>
#include <random>

#include "chapters/03_data_parallel/parameter_server/server_technique.hpp"
#include "chapters/03_data_parallel/parameter_server/server_training.hpp"
#include "common/comm/run_ranks.hpp"
#include "tests/chapters/03_data_parallel/parameter_server/served_run.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

using namespace test;

class AsyncServerTraining : public ServedTest {
 protected:
  ServedCase draw_async(int replicas, int servers, std::size_t staleness, DType dtype) {
    ServedCase c = draw(replicas, servers, dtype);
    c.settings.asynchronous = true;
    c.settings.staleness = staleness;
    return c;
  }

  /// One pass per step, so that a block's hooks run once in it.
  ServedCase one_pass_per_step(int replicas, int servers, std::size_t staleness) {
    ServedCase c = draw_async(replicas, servers, staleness, DType::kF32);
    c.recompute = "";
    c.micro_batch = 1;
    c.options.global_batch = static_cast<std::size_t>(replicas);
    c.options.steps = 8;
    return c;
  }
};

TEST_F(AsyncServerTraining, OfOneReplicaIsTrainingOnOneRank) {
  for (const Priority priority : kPriorities) {
    ServedCase c =
        draw_async(1, static_cast<int>(random.between(1, 3)), random.between(0, 2), DType::kF64);
    c.settings.priority = priority;
    on_ranks(c, [&](Communicator& world) {
      const RankRun run = run_served(world, c);
      const RankRun one = run_alone(world, c.options);
      expect_near_figures(run, one, 1e-10);
      if (world.rank() == 0) expect_near_weights(run, one, 1e-10);
      expect_same_on_all(world, losses_and_norms(run.result));
    });
  }
}

TEST_F(AsyncServerTraining, AllReplicasEndWithTheSameWeights) {
  for (const int replicas : {2, 3}) {
    const ServedCase c = draw_async(replicas, static_cast<int>(random.between(1, 3)),
                                    random.between(0, 3), random.pick({DType::kF32, DType::kF64}));
    on_ranks(c, [&](Communicator& world) {
      const RankRun run = run_served(world, c);
      expect_same_on_all(world, losses_and_norms(run.result));
      const auto is_replica = [&](int rank) { return rank < c.replicas; };
      const Communicator group = world.split(is_replica, "dp");
      if (!is_replica(world.rank())) return;
      for (const std::vector<double>& weight : run.weights) {
        expect_same_on_all(group, weight);
      }
    });
  }
}

/// What each replica has done so far, in one process.
struct Passes {
  explicit Passes(int replicas) : backward_done(static_cast<std::size_t>(replicas)) {}

  [[nodiscard]] std::size_t least_done() const {
    std::size_t least = backward_done.front();
    for (const auto& done : backward_done) least = std::min(least, done.load());
    return least;
  }

  std::vector<std::atomic<std::size_t>> backward_done;
  std::atomic<int> violations = 0;
  std::atomic<std::size_t> farthest_ahead = 0;
};

/// Counts the passes of a replica, which sleeps for random moments.
train::MakeObserver counting(Passes& passes, std::size_t replica, std::size_t staleness,
                             std::uint64_t seed) {
  return [&passes, replica, staleness, seed](const train::ModelScope& scope) {
    // Within the hook of PushPull: the replica has the weights of block 0 when the first one is
    // called. Its last gradients, the embedding's, are made after the second.
    const auto forward = [&passes, replica, staleness](const nn::PartCall& call) {
      const std::size_t own = passes.backward_done[replica];
      const std::size_t ahead = own - std::min(own, passes.least_done());
      if (call.part == 1 && ahead > staleness) ++passes.violations;
      if (call.part == 1 && ahead > passes.farthest_ahead) passes.farthest_ahead = ahead;
      call.compute();
    };
    const auto backward = [&passes, replica](const nn::PartCall& call) {
      call.compute();
      if (call.part == 1) ++passes.backward_done[replica];
    };
    const nn::HookHandle hook =
        scope.chunks.front()->add_part_hook({.forward = forward, .backward = backward});
    const auto engine = std::make_shared<std::mt19937_64>(seed + replica);
    return before_steps([engine, hook](std::size_t) {
      std::this_thread::sleep_for(std::chrono::microseconds((*engine)() % 3000));
    })(scope);
  };
}

TEST_F(AsyncServerTraining, NoReplicaStartsAStepThatIsTooFarAhead) {
  if (launched_world_size()) GTEST_SKIP() << "replicas look at each other's memory";
  for (const std::size_t staleness : {0U, 1U, 2U, 3U}) {
    ServedCase c = one_pass_per_step(3, static_cast<int>(random.between(1, 2)), staleness);
    if (c.settings.servers > 1) c.settings.priority = Priority::kNone;  // begins with all weights
    Passes passes(c.replicas);
    on_ranks(c, [&](Communicator& world) {
      const auto rank = static_cast<std::size_t>(world.rank());
      static_cast<void>(run_served(world, c, counting(passes, rank, staleness, seed)));
    });
    EXPECT_EQ(passes.violations, 0) << c.str();
    EXPECT_LE(passes.farthest_ahead, staleness);
    EXPECT_EQ(passes.least_done(), c.options.steps);
  }
}

/// The straggler's first step waits until all others are in their step number staleness + 1: with a
/// server that lets them do less, nobody ever moves again.
TEST_F(AsyncServerTraining, AStragglerDoesNotStopOthersWithinTheBound) {
  constexpr int kChannel = 9;
  for (const std::size_t staleness : {0U, 1U, 3U}) {
    const ServedCase c = one_pass_per_step(3, static_cast<int>(random.between(1, 2)), staleness);
    const int straggler = static_cast<int>(random.between(0, 2));
    on_ranks(c, [&](Communicator& world) {
      const auto meet = before_steps([&](std::size_t step) {
        const Tensor word = Tensor::zeros(Device::cpu(), {1}, DType::kI32);
        if (world.rank() == straggler && step == 1) {
          for (int other = 0; other < c.replicas; ++other) {
            if (other != straggler) world.recv(word, other, kChannel).wait();
          }
        }
        if (world.rank() != straggler && step == staleness + 1) {
          world.send(word, straggler, kChannel).wait();
        }
      });
      static_cast<void>(run_served(world, c, meet));
    });
  }
}

TEST(StragglerRanks, OneReplicaTakesLonger) {
  const Straggler straggler{.replica = 1, .delay = std::chrono::milliseconds(30)};
  run_ranks(3, [&](Communicator& world) {
    const auto observer = make_straggler(straggler, world);
    const auto begin = std::chrono::steady_clock::now();
    for (const std::size_t step : {1U, 2U}) {
      observer->step_begins({.step = step, .learning_rate = 0.1});
      observer->step_ends({.step = step, .learning_rate = 0.1});
    }
    const auto taken = std::chrono::steady_clock::now() - begin;
    if (world.rank() == straggler.replica) {
      EXPECT_GE(taken, 2 * straggler.delay);
    }
  });
}

}  // namespace
}  // namespace ultra::data_parallel
