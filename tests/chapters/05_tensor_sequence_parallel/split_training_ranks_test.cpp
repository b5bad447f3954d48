// The chapter's promise, through whole training runs: however matrices, sequences, batches and
// states are split over a mesh dp x tp, the ranks compute what one rank computes.
//
// Covers: chapters/05_tensor_sequence_parallel/tensor_parallel.hpp
// Covers: chapters/05_tensor_sequence_parallel/ring_layers.hpp

#include "tests/chapters/05_tensor_sequence_parallel/split_run.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::tensor_parallel {
namespace {

using namespace tensor_parallel::test;

using Meshes = std::vector<std::pair<std::size_t, std::size_t>>;  // dp, tp

class SplitTraining : public SplitTest {
 protected:
  /// Both cases' losses, norms and weights, bit for bit.
  static void expect_same_bits(const MeshCase& c, const MeshCase& other) {
    on_mesh(c, [&](Communicator& world) {
      const RankRun run = c.run(world);
      const RankRun expected = other.run(world);
      EXPECT_EQ(losses_and_norms(run.result), losses_and_norms(expected.result));
      EXPECT_TRUE(run.weights == expected.weights) << "weights";
    });
  }
};

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

TEST_F(SplitTraining, MeshesComputeWhatOneRankComputes) {
  for (const auto& [dp, tp] : Meshes{{2, 2}, {3, 2}, {2, 3}, {4, 2}, {2, 4}}) {
    expect_equals_one_rank(
        with_zero(draw({.dp = dp, .tp = tp}, DType::kF64), random.pick({0, 1, 2, 3})));
  }
}

TEST_F(SplitTraining, OverlapChangesNoBit) {
  for (const DType dtype : kFloatDTypes) {
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
TEST_F(SplitTraining, CopiesStayTheSameAlsoWhereGradientsAreCompressed) {
  for (const char* compression : {"none", "int8", "onebit", "topk:0.2", "powersgd:2"}) {
    MeshCase c = draw({.dp = random.pick({1U, 2U}), .tp = 4}, DType::kF64,
                      {random.pick({SequenceParallel::kOff, SequenceParallel::kOn})});
    c.options.model.num_kv_heads = 2;  // each on two ranks
    c.options.model.num_heads = 4;
    c.options.model.hidden_size = 16;
    c.more = fmt::format("--check-replicas 1 --compress {} --bucket-mb {}", compression,
                         random.pick({"0.0001", "0.001", "25"}));
    on_mesh(c, [&](Communicator& world) { EXPECT_NO_THROW(static_cast<void>(c.run(world))); });
  }
}

}  // namespace
}  // namespace ultra::tensor_parallel
