// The chapter's promise, through whole training runs: however matrices, sequences, batches and
// states are split over a mesh dp x tp, the ranks compute what one rank computes.
//
// Covers: chapters/05_tensor_sequence_parallel/tensor_parallel.hpp
// Covers: chapters/05_tensor_sequence_parallel/ring_layers.hpp

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/chapters/05_tensor_sequence_parallel/split_run.hpp"

namespace ultra::tensor_parallel {
namespace {

using namespace tensor_parallel::test;
using ::testing::Each;
using ::testing::Eq;

using Meshes = std::vector<std::pair<std::size_t, std::size_t>>;  // dp, tp

class SplitTraining : public SplitTest {
 protected:
  /// Losses, norms and weights within a relative distance of one rank's; the same on all ranks.
  static void expect_equals_one_rank(const MeshCase& c) {
    on_mesh(c, [&](Communicator& world) {
      const SplitRun run = run_split(world, c);
      expect_equals(world, run, c.run_alone(world), 1e-10);
      EXPECT_THAT(run.padding, Each(Eq(0.0))) << "what pads the vocabulary";
    });
  }

  /// Both cases' losses, norms and weights, bit for bit.
  static void expect_same_bits(const MeshCase& c, const MeshCase& other) {
    on_mesh(c, [&](Communicator& world) {
      const SplitRun run = run_split(world, c);
      const SplitRun expected = run_split(world, other);
      EXPECT_EQ(losses_and_norms(run.result), losses_and_norms(expected.result));
      EXPECT_TRUE(run.weights == expected.weights) << "weights";
    });
  }
};

// One rank ----------------------------------------------------------------------------------------

TEST_F(SplitTraining, TensorParallelRanksComputeWhatOneComputes) {
  for (const std::size_t tp : {1U, 2U, 3U, 4U, 5U, 8U}) {
    for (const SequenceParallel on : {SequenceParallel::kOff, SequenceParallel::kOn}) {
      const TensorOverlap overlap = random.pick({TensorOverlap::kNone, TensorOverlap::kBackward});
      expect_equals_one_rank(draw({.tp = tp}, DType::kF64, {on, overlap}));
    }
  }
}

TEST_F(SplitTraining, RingsComputeWhatOneRankComputes) {
  for (const std::size_t tp : {2U, 3U, 4U, 8U}) {
    expect_equals_one_rank(
        draw({.tp = tp}, DType::kF64, {SequenceParallel::kOn, TensorOverlap::kRing}));
  }
}

TEST_F(SplitTraining, AZLossOfTheHeadIsThatOfOneRank) {
  for (const std::size_t tp : {2U, 3U}) {
    MeshCase c = draw({.dp = random.pick({1U, 2U}), .tp = tp}, DType::kF64);
    c.options.head_z_loss = 0.1;
    expect_equals_one_rank(c);
  }
}

TEST_F(SplitTraining, MeshesComputeWhatOneRankComputes) {
  for (const auto& [dp, tp] : Meshes{{2, 2}, {3, 2}, {2, 3}, {4, 2}, {2, 4}}) {
    expect_equals_one_rank(draw({.dp = dp, .tp = tp}, DType::kF64));
  }
}

TEST_F(SplitTraining, EveryStageOfZeroOnAMesh) {
  for (const auto& [dp, tp] : Meshes{{2, 2}, {3, 2}, {2, 4}}) {
    for (const int stage : {1, 2, 3}) {
      expect_equals_one_rank(with_zero(draw({.dp = dp, .tp = tp}, DType::kF64), stage));
    }
  }
}

TEST_F(SplitTraining, ShardsInNodesOnAMesh) {
  for (const int stage : {1, 3}) {
    MeshCase c = with_zero(draw({.dp = 4, .tp = 2}, DType::kF64), stage);
    c.more += " --hybrid-shard 2";
    expect_equals_one_rank(c);
  }
}

TEST_F(SplitTraining, RecomputationOnAMesh) {
  for (const char* mode : {"selective", "full"}) {
    const MeshCase whole = draw({.dp = 2, .tp = random.pick({2U, 3U})}, DType::kF64);
    MeshCase c = whole;
    c.more = fmt::format("--recompute {}", mode);
    expect_equals_one_rank(c);
    expect_same_bits(c, whole);
  }
}

// Down projections are whole on each rank of tp, heads are dealt out, and the latent and the rotated part
// of the key enter them.
TEST_F(SplitTraining, LatentsOnAMesh) {
  for (const bool absorbed : {false, true}) {
    for (const auto& [dp, tp] : Meshes{{1, 2}, {1, 3}, {1, 4}, {2, 2}, {3, 2}}) {
      Split split = draw_split();
      if (tp == 4) split = {SequenceParallel::kOn, TensorOverlap::kRing};
      MeshCase c = with_latents(draw({.dp = dp, .tp = tp}, DType::kF64, split), random, absorbed);
      if (dp > 1) c = with_zero(c, random.pick({1, 2, 3}));
      if (dp == 3) c.options.optimizer = "muon";
      if (tp == 3) c.more += fmt::format(" --recompute {}", random.pick({"selective", "full"}));
      expect_equals_one_rank(c);
    }
  }
}

// Either form, in layouts of its own.
TEST_F(SplitTraining, BothFormsOfLatentsTrainTheSameModel) {
  const MeshCase c = with_latents(draw({.dp = 1, .tp = 2}, DType::kF64), random, false);
  MeshCase other = c;
  other.options.model.latent.absorbed = true;
  on_mesh(c, [&](Communicator& world) {
    expect_equals(world, run_split(world, c), run_split(world, other), 1e-10);
  });
}

// Muon's matrices are whole on one rank of tp; with ZeRO on one of dp too, each exchange within the other.
TEST_F(SplitTraining, StepsOfWholeMatricesOnAMesh) {
  for (const auto& [dp, tp] : Meshes{{1, 2}, {1, 3}, {1, 4}, {2, 2}, {3, 2}, {2, 4}}) {
    MeshCase c = draw({.dp = dp, .tp = tp}, DType::kF64);
    if (dp > 1) c = with_zero(c, random.pick({1, 2, 3}));
    c.options.optimizer = "muon";
    if (random.pick({true, false})) c.more += fmt::format(" --muon-batch {}", random.between(1, 3));
    expect_equals_one_rank(c);
  }
}

TEST_F(SplitTraining, InF32LossesStayWithinAHundredThousandth) {
  for (const auto& [dp, tp] : Meshes{{1, 2}, {1, 4}, {2, 2}, {2, 4}}) {
    MeshCase c = draw({.dp = dp, .tp = tp}, DType::kF32);
    if (dp == 2 && tp == 2) c = with_zero(c, 3);
    expect_near_one_rank_in_f32(c);
  }
}

// Bit for bit -------------------------------------------------------------------------------------

TEST_F(SplitTraining, OverlapChangesNoBit) {
  for (const DType dtype : ultra::test::kFloatDTypes) {
    Split split = draw_split();
    split.overlap = TensorOverlap::kBackward;
    const MeshCase c =
        draw({.dp = random.pick({1U, 2U}), .tp = random.pick({2U, 3U, 4U})}, dtype, split);
    MeshCase waiting = c;
    split.overlap = TensorOverlap::kNone;
    waiting.layout = split.flags();
    expect_same_bits(c, waiting);
  }
}

// --check-replicas ends a training whose copies differ.
TEST_F(SplitTraining, CopiesStayTheSameWhereGradientsAreCompressed) {
  for (const char* compression : {"int8", "onebit", "topk:0.2", "powersgd:2"}) {
    MeshCase c = draw({.dp = random.pick({1U, 2U}), .tp = 4}, DType::kF64,
                      {random.pick({SequenceParallel::kOff, SequenceParallel::kOn})});
    c.options.model.num_kv_heads = 2;  // each on two ranks
    c.options.model.num_heads = 4;
    c.options.model.hidden_size = 16;
    c.more = fmt::format("--check-replicas 1 --compress {} --bucket-mb {}", compression,
                         random.pick({"0.0001", "0.001", "25"}));
    on_mesh(c,
            [&](Communicator& world) { EXPECT_NO_THROW(static_cast<void>(run_split(world, c))); });
  }
}

TEST_F(SplitTraining, CopiesStayTheSame) {
  for (const SequenceParallel on : {SequenceParallel::kOff, SequenceParallel::kOn}) {
    MeshCase c = draw({.tp = 4}, DType::kF32, {on});
    c.options.model.num_kv_heads = 2;
    c.options.model.num_heads = 4;
    c.options.model.hidden_size = 16;
    nn::DenseFactory dense;
    const std::vector<nn::NamedShape> parameters = nn::named_shapes(c.options.model, dense);
    on_mesh(c, [&](Communicator& world) {
      const SplitRun run = run_split(world, c);
      std::vector<double> of_norms;
      std::vector<double> of_heads;
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        const std::string& name = parameters[i].name;
        const std::vector<double>& own = run.own[i];
        if (name.find("norm") != std::string::npos) {
          of_norms.insert(of_norms.end(), own.begin(), own.end());
        } else if (name.ends_with("k_proj.weight") || name.ends_with("v_proj.weight")) {
          of_heads.insert(of_heads.end(), own.begin(), own.end());
        }
      }
      expect_same_on_all(world, of_norms);
      expect_same_on_all(world.split([](int rank) { return rank / 2; }, "copies"), of_heads);
      EXPECT_EQ(of_norms.size(), (2 * c.options.model.num_layers + 1) * 16);
      EXPECT_EQ(of_heads.size(), 2 * c.options.model.num_layers * 4 * 16);
    });
  }
}

}  // namespace
}  // namespace ultra::tensor_parallel
