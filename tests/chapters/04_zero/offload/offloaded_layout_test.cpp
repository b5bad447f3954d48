#include "chapters/04_zero/offload/offloaded_layout.hpp"

#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using Weights = OffloadedLayout::Weights;
using Counts = std::vector<std::size_t>;

TEST(OffloadedLayout, ABlockEndsWhenItIsLargeEnough) {
  const Counts counts = {3, 4, 10, 1, 1};
  const OffloadedLayout layout(counts, 2, 5, Weights::kStay);
  const std::vector<OffloadedBlock> expected = {{.tensors = {0, 2}, .elements = {0, 7}},
                                                {.tensors = {2, 3}, .elements = {7, 17}},
                                                {.tensors = {3, 5}, .elements = {17, 19}}};
  EXPECT_EQ(layout.blocks(), expected);
  EXPECT_EQ(layout.block_of(1), 0U);
  EXPECT_EQ(layout.elements_of(2), (Range{7, 17}));
  EXPECT_EQ(layout.stored(), 2 * 19U);
  EXPECT_EQ(layout.stored_states(1), (Range{14, 34}));
  EXPECT_EQ(layout.state_in_buffer(1, 0), (Range{3, 7}));
  EXPECT_EQ(layout.state_in_buffer(1, 1), (Range{10, 14}));
  EXPECT_EQ(layout.window(), 2 * 19U) << "three blocks are all";
}

TEST(OffloadedLayout, WeightsStandBeforeTheMoments) {
  const Counts counts = {3, 4, 10};
  const OffloadedLayout layout(counts, 2, 5, Weights::kStored);
  EXPECT_TRUE(layout.stores_weights());
  EXPECT_EQ(layout.stored(), 3 * 17U);
  EXPECT_EQ(layout.stored_states(0), (Range{17, 31}));
  EXPECT_EQ(layout.weights_in_buffer(1), (Range{3, 7}));
  EXPECT_EQ(layout.state_in_buffer(1, 0), (Range{10, 14}));
}

TEST(OffloadedLayout, ABufferIsAsLargeAsTheLargestOfItsBlocks) {
  const Counts counts = {1, 2, 3, 7, 5, 2};
  const OffloadedLayout layout(counts, 2, 1, Weights::kStay);
  EXPECT_EQ(layout.buffers(), (std::array<std::size_t, kWindowBuffers>{14, 10, 6}));
  EXPECT_EQ(layout.window(), 30U);
}

TEST(OffloadedLayout, OfNothingIsEmpty) {
  const OffloadedLayout layout({}, 2, 5, Weights::kStored);
  EXPECT_TRUE(layout.blocks().empty());
  EXPECT_EQ(layout.stored(), 0U);
  EXPECT_EQ(layout.window(), 0U);
}

class OffloadedLayoutTest : public test::RandomTest {};

TEST_F(OffloadedLayoutTest, BlocksCoverAllElementsOnceAndOnlyTheLastIsSmall) {
  for (int i = 0; i < 100; ++i) {
    Counts counts(random.between(1, 30));
    for (std::size_t& count : counts) count = random.between(0, 50);
    const std::size_t least = random.between(1, 80);
    const OffloadedLayout layout(counts, 2, least, Weights::kStay);
    std::size_t tensor = 0;
    std::size_t element = 0;
    for (const OffloadedBlock& block : layout.blocks()) {
      EXPECT_EQ(block.tensors.begin, tensor);
      EXPECT_EQ(block.elements.begin, element);
      EXPECT_TRUE(block.elements.size() >= least || block.tensors.end == counts.size());
      tensor = block.tensors.end;
      element = block.elements.end;
    }
    EXPECT_EQ(tensor, counts.size());
    EXPECT_EQ(2 * element, layout.stored());
  }
}

}  // namespace
}  // namespace ultra::zero
