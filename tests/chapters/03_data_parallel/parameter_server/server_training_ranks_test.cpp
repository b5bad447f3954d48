// A parameter server that waits for all replicas computes what one rank computes, and what replicas
// with an all-reduce compute; whatever the order in which gradients and weights travel.
//
// Covers: chapters/03_data_parallel/parameter_server/server_training.hpp

#include "chapters/03_data_parallel/parameter_server/server_training.hpp"

#include "tests/chapters/03_data_parallel/parameter_server/served_run.hpp"
#include "tests/support/ranks/rank_fates.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::data_parallel {
namespace {

using namespace test;

class ServerTraining : public ServedTest {
 protected:
  /// One case, in every order of travelling.
  static void expect_equivalent(ServedCase c, double relative) {
    for (const Priority priority : kPriorities) {
      c.settings.priority = priority;
      on_ranks(c, [&](Communicator& world) {
        const RankRun run = run_served(world, c);
        const RankRun one = run_alone(world, c.options);
        expect_near_figures(run, one, relative);
        expect_same_on_all(world, losses_and_norms(run.result));
        const auto is_replica = [&](int rank) { return rank < c.replicas; };
        const Communicator group = world.split(is_replica, "dp");
        if (!is_replica(world.rank())) return;
        expect_near_weights(run, one, relative);
        for (const std::vector<double>& weight : run.weights) {
          expect_same_on_all(group, weight);
        }
        const RankRun reduced = run_all_reduce(group, c);
        expect_near_figures(run, reduced, relative);
        if (c.options.clip_norm == 0) {
          EXPECT_EQ(run.weights, reduced.weights) << "bit for bit, when no norm is needed";
        }
      });
    }
  }
};

TEST_F(ServerTraining, EqualsOneRankAndAllReduce) {
  for (const int servers : {1, 2, 3}) {
    for (const int replicas : {1, 2, 3}) {
      ServedCase c = draw(replicas, servers, DType::kF64);
      if (servers == 2) c.options.clip_norm = 0;
      expect_equivalent(c, 1e-10);
    }
  }
}

TEST_F(ServerTraining, ServersMayOutnumberSlices) {
  ServedCase c = draw(1, 6, DType::kF64);
  c.options.model.num_layers = 1;
  c.settings.slice_capacity = 0;
  c.settings.servers = 7;
  // A block has nine parameters; with the embedding, the final norm and the head there are twelve.
  // Dealt by size, the largest ones have a server each, and somebody may get nothing.
  c.options.model.ffn_hidden_size = 1;
  on_ranks(c, [&](Communicator& world) {
    const RankRun run = run_served(world, c);
    expect_near_figures(run, run_alone(world, c.options), 1e-10);
  });
}

TEST_F(ServerTraining, SendsGradientsOnceAndWeightsToEachReplica) {
  for (const Priority priority : kPriorities) {
    ServedCase c =
        draw(static_cast<int>(random.between(1, 3)), static_cast<int>(random.between(1, 3)),
             random.pick({DType::kF32, DType::kF64}));
    c.settings.priority = priority;
    on_ranks(c, [&](Communicator& world) {
      const train::TrainResult result = run_served(world, c).result;
      const std::size_t bytes = result.parameters * size_of(c.options.dtype);
      const auto replicas = static_cast<std::size_t>(c.replicas);
      std::size_t pulled = 0;
      for (const train::RankSummary& rank : result.ranks) {
        const CommStats::PerKind& sent = rank.communication[OpKind::kSend];
        if (rank.rank < c.replicas) {
          EXPECT_EQ(sent.sent_bytes, c.options.steps * bytes) << "rank " << rank.rank;
        } else {
          EXPECT_EQ(sent.sent_bytes % (c.options.steps * replicas), 0U) << "rank " << rank.rank;
          pulled += sent.sent_bytes;
        }
        const std::size_t norms =
            rank.rank >= c.replicas && c.options.clip_norm > 0 ? c.options.steps : 0;
        EXPECT_EQ(rank.communication[OpKind::kAllReduce].operations, norms + 1)
            << "the norm of each step, among servers that clip, and the figures at the end";
      }
      EXPECT_EQ(pulled, c.options.steps * replicas * bytes);
    });
  }
}

TEST_F(ServerTraining, KeepsTheOptimizerOnTheServers) {
  ServedCase c = draw(2, 2, DType::kF32);
  c.recompute = "";
  on_ranks(c, [&](Communicator& world) {
    const train::TrainResult result = run_served(world, c).result;
    const std::size_t bytes = result.parameters * 4;
    std::size_t values = 0;
    std::size_t optimizer = 0;
    for (const train::RankSummary& rank : result.ranks) {
      const auto peak = [&](MemoryCategory category) { return rank.memory.peak(category).bytes; };
      if (rank.rank < c.replicas) {
        EXPECT_EQ(peak(MemoryCategory::kParameters), bytes);
        EXPECT_EQ(peak(MemoryCategory::kGradients), bytes) << "gradients are not held twice";
        EXPECT_EQ(peak(MemoryCategory::kOptimizer), 0U);
      } else {
        EXPECT_EQ(peak(MemoryCategory::kGradients), 0U);
        EXPECT_EQ(peak(MemoryCategory::kOptimizer), 2 * peak(MemoryCategory::kParameters));
        EXPECT_GE(peak(MemoryCategory::kCommunication), 2 * peak(MemoryCategory::kParameters))
            << "a gradient of each replica";
        values += peak(MemoryCategory::kParameters);
        optimizer += peak(MemoryCategory::kOptimizer);
      }
    }
    EXPECT_EQ(values, bytes);
    EXPECT_EQ(optimizer, 2 * bytes);
  });
}

// A server or a replica that fails ends all ranks, and nobody waits for ever.

class ServerFailure : public ServedTest {
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
    quietly([&] { fates = fates_of(c.world_size(), fn, c.ranks); });
    return fates;
  }
};

TEST_F(ServerFailure, AServerThatThrowsEndsAll) {
  for (int round = 0; round < 4; ++round) {
    const ServedCase c = draw_any();
    const int guilty = c.world_size() - 1;
    const std::size_t updates = random.between(0, 20);
    expect_told<NumericError>(
        fates(c,
              [&](Communicator& world) {
                std::size_t made = 0;
                const auto adamw = [&](const Tensor& value, const Tensor& grad,
                                       const Tensor& first_moment, const Tensor& second_moment,
                                       const ops::AdamWStep& constants) {
                  if (world.rank() == guilty && made++ == updates) {
                    throw NumericError("this server is broken");
                  }
                  ops::adamw_into(value, grad, first_moment, second_moment, constants);
                };
                static_cast<void>(run_served(world, c, {}, optim::adamw({}, adamw)));
              }),
        c.str(), guilty, "this server is broken");
  }
}

TEST_F(ServerFailure, AReplicaThatThrowsEndsAll) {
  for (int round = 0; round < 4; ++round) {
    const ServedCase c = draw_any();
    const int guilty = c.replicas - 1;
    const std::size_t failing = random.between(1, c.options.steps);
    expect_told<NumericError>(fates(c,
                                    [&](Communicator& world) {
                                      const auto fail = before_steps([&](std::size_t step) {
                                        if (world.rank() == guilty && step == failing) {
                                          throw NumericError("this replica is broken");
                                        }
                                      });
                                      static_cast<void>(run_served(world, c, fail));
                                    }),
                              c.str(), guilty, "this replica is broken");
  }
}

TEST_F(ServerTraining, NeedsAServerAndAReplica) {
  test::quietly([&] {
    run_ranks(2, [](Communicator& world) {
      for (const int servers : {0, 2, 3}) {
        EXPECT_THAT(test::message_of<ConfigError>(
                        [&] { static_cast<void>(make_server_world(world, {.servers = servers})); }),
                    HasSubstr("servers in a world of 2 ranks"));
      }
    });
  });
}

}  // namespace
}  // namespace ultra::data_parallel
