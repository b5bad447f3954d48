#include "chapters/04_zero/zero_plus_plus/zero_plus_plus_volume.hpp"

#include "chapters/04_zero/zero_plus_plus/zero_plus_plus_options.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

ZeroPlusPlus of(const std::string& list, std::optional<std::size_t> node_size = {}) {
  ZeroPlusPlus how = list.empty() ? ZeroPlusPlus() : parse_techniques(list);
  how.node_size = node_size;
  return how;
}

/// Two units whose shards on 8 ranks are 512 and 100 numbers of f32; the first one is the head.
std::vector<FlatLayout> two_units() {
  return {flat_layout(std::vector<std::size_t>{4096}, 8),
          flat_layout(std::vector<std::size_t>{798}, 8)};
}

StepVolume sent(const std::string& list, std::optional<std::size_t> node_size, int rank,
                Reshard reshard = Reshard::kAfterForward) {
  return sent_in_micro_batch(two_units(), DType::kF32, of(list, node_size),
                             {.rank = rank, .ranks = 8}, reshard);
}

constexpr std::size_t kExact = (512 + 100) * 4;
constexpr std::size_t kOneByte = (2 * 4 + 512) + (4 + 100);
constexpr std::size_t kExactBlock = 100 * 4;  // without the head
constexpr std::size_t kInt8Block = 4 + 100;
constexpr std::size_t kHalfByte =
    (16 * 4 + 256) + (4 * 4 + 52);  // blocks of 32; 50 bytes, filled up

// The paper's table -------------------------------------------------------------------------------

/// Wang et al. 2023, table 1, with numbers of 16 bits.
TEST(VolumeBetweenNodes, IsThePapersTableCellByCell) {
  const NodeVolume zero3 = volume_between_nodes({}, 16);
  EXPECT_EQ(zero3.forward, 1);
  EXPECT_EQ(zero3.backward, 1);
  EXPECT_EQ(zero3.reduce, 1);
  EXPECT_EQ(zero3.total(), 3);
  const NodeVolume all =
      volume_between_nodes(of("weights-int8,hierarchical,gradients-int4", 8), 16);
  EXPECT_EQ(all.forward, 0.5);
  EXPECT_EQ(all.backward, 0);
  EXPECT_EQ(all.reduce, 0.25);
  EXPECT_EQ(all.total(), 0.75);
  EXPECT_EQ(zero3.total() / all.total(), 4) << "the abstract's factor";
}

TEST(VolumeBetweenNodes, EachTechniqueChangesItsOwnCells) {
  EXPECT_EQ(volume_between_nodes(of("weights-int8"), 16), (NodeVolume{0.5, 0.5, 1}));
  EXPECT_EQ(volume_between_nodes(of("hierarchical", 8), 16), (NodeVolume{1, 0, 1}));
  EXPECT_EQ(volume_between_nodes(of("gradients-int4", 8), 16), (NodeVolume{1, 1, 0.25}));
  EXPECT_EQ(volume_between_nodes(of("gradients-int8", 8), 16), (NodeVolume{1, 1, 0.5}));
  EXPECT_EQ(volume_between_nodes(of("weights-int8,gradients-int4", 8), 32),
            (NodeVolume{0.25, 0.25, 0.125}));
}

/// What the ranks of a node send together is the table's number, but for what a ring keeps in a
/// node, (N-1)/N or (K-1)/K, and the scales: 4 bytes with each block.
TEST(VolumeBetweenNodes, IsWhatTheRanksOfANodeSend) {
  constexpr int kRanks = 512;
  constexpr std::size_t kNode = 8;
  constexpr double kShard = 2048;  // a whole number of blocks
  const std::vector<FlatLayout> units = {
      flat_layout({}, kRanks),  // a head that is nothing beside the blocks
      flat_layout(std::vector<std::size_t>{static_cast<std::size_t>(kShard) * kRanks}, kRanks)};
  const double model = kShard * kRanks * 4;
  for (const char* list : {"", "weights-int8", "hierarchical", "gradients-int4",
                           "weights-int8,hierarchical,gradients-int8"}) {
    SCOPED_TRACE(list);
    const ZeroPlusPlus how = of(list, kNode);
    StepVolume node;
    for (int rank = 0; rank < static_cast<int>(kNode); ++rank) {
      const StepVolume one =
          sent_in_micro_batch(units, DType::kF32, how, {.rank = rank, .ranks = kRanks});
      node.forward += one.forward;
      node.backward += one.backward;
      node.reduce += one.reduce;
    }
    const NodeVolume table = volume_between_nodes(how, 32);
    const auto scales = [](const std::optional<BlockFormat>& format) {
      return format ? 1.0 / static_cast<double>(format->block) : 0.0;
    };
    const double ring = (kRanks - 1.0) / kRanks;
    EXPECT_DOUBLE_EQ(static_cast<double>(node.forward.between) / model,
                     ring * (table.forward + scales(how.weights)));
    EXPECT_DOUBLE_EQ(static_cast<double>(node.backward.between) / model,
                     table.backward == 0 ? 0 : ring * (table.backward + scales(how.weights)));
    if (!how.gradients) continue;  // ours is pairwise: n times what a ring sends
    EXPECT_DOUBLE_EQ(
        static_cast<double>(node.reduce.between) / model,
        (1 - static_cast<double>(kNode) / kRanks) * (table.reduce + scales(how.gradients)));
  }
}

// To the byte -------------------------------------------------------------------------------------

TEST(SentInMicroBatch, Zero3SendsEachShardToTheOthersThriceAndThatOfTheHeadTwice) {
  const StepVolume volume = sent("", {}, 3);
  EXPECT_EQ(volume.forward, (SentBytes{7 * kExact, 0}));
  EXPECT_EQ(volume.backward, (SentBytes{7 * kExactBlock, 0}));
  EXPECT_EQ(volume.reduce, (SentBytes{7 * kExact, 0}));
  EXPECT_EQ(volume.total(), (SentBytes{7 * (2 * kExact + kExactBlock), 0}))
      << "one node: nothing leaves it";
}

TEST(SentInMicroBatch, OnlyALastRankSendsItsRingToAnotherNode) {
  EXPECT_EQ(sent("weights-int8", 4, 2).forward, (SentBytes{7 * kOneByte, 0}));
  EXPECT_EQ(sent("weights-int8", 4, 3).forward, (SentBytes{7 * kOneByte, 7 * kOneByte}));
  EXPECT_EQ(sent("weights-int8", 4, 7).backward, (SentBytes{7 * kInt8Block, 7 * kInt8Block}));
  EXPECT_EQ(sent("weights-int8", 8, 7).forward, (SentBytes{7 * kOneByte, 0})) << "one node";
}

TEST(SentInMicroBatch, SecondaryShardsStayInTheNode) {
  EXPECT_EQ(sent("hierarchical", 4, 3).forward, (SentBytes{7 * kExact, 7 * kExact}));
  EXPECT_EQ(sent("hierarchical", 4, 3).backward, (SentBytes{3 * 2 * kExactBlock, 0}));
  EXPECT_EQ(sent("hierarchical", 1, 3).backward, (SentBytes{0, 0})) << "it has everything";
  EXPECT_EQ(sent("weights-int8,hierarchical", 2, 3).backward, (SentBytes{4 * kInt8Block, 0}));
}

TEST(SentInMicroBatch, GradientsTravelInOneStepOrInTwo) {
  EXPECT_EQ(sent("", 4, 0).reduce, (SentBytes{7 * kExact, 4 * kExact}));
  EXPECT_EQ(sent("gradients-int8", {}, 0).reduce, (SentBytes{7 * kOneByte, 0}));
  EXPECT_EQ(sent("gradients-int4", 4, 0).reduce, (SentBytes{(3 * 2 + 1) * kHalfByte, kHalfByte}));
  EXPECT_EQ(sent("gradients-int4", 2, 0).reduce, (SentBytes{(4 + 3) * kHalfByte, 3 * kHalfByte}));
  EXPECT_EQ(sent("gradients-int4", 1, 0).reduce, (SentBytes{7 * kHalfByte, 7 * kHalfByte}))
      << "one step";
  EXPECT_EQ(sent("gradients-int4", 8, 0).reduce, (SentBytes{7 * kHalfByte, 0}));
}

TEST(SentInMicroBatch, KeptUnitsAreGatheredOnce) {
  EXPECT_EQ(sent("weights-int8", {}, 0, Reshard::kAfterBackward).backward, SentBytes());
}

TEST(SentInMicroBatch, NodesMustMakeUpTheRanks) {
  EXPECT_THAT(test::message_of<ConfigError>([] { static_cast<void>(sent("hierarchical", 3, 0)); }),
              HasSubstr("8 ranks are not whole nodes of 3"));
}

}  // namespace
}  // namespace ultra::zero
