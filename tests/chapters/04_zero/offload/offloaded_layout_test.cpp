#include "chapters/04_zero/offload/offloaded_layout.hpp"

#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using Weights = OffloadedLayout::Weights;
using Tensors = std::vector<OffloadedTensor>;

/// Tensors of so many elements, of each of which an optimizer keeps two numbers.
Tensors with_two(std::initializer_list<std::size_t> counts) {
  Tensors tensors;
  for (const std::size_t count : counts) tensors.push_back({.elements = count, .states = 2});
  return tensors;
}

TEST(OffloadedLayout, ABlockEndsWhenItIsLargeEnough) {
  const OffloadedLayout layout(with_two({3, 4, 10, 1, 1}), 5, Weights::kStay);
  const std::vector<OffloadedBlock> expected = {
      {.tensors = {0, 2}, .elements = {0, 7}, .states = {0, 14}},
      {.tensors = {2, 3}, .elements = {7, 17}, .states = {14, 34}},
      {.tensors = {3, 5}, .elements = {17, 19}, .states = {34, 38}}};
  EXPECT_EQ(layout.blocks(), expected);
  EXPECT_EQ(layout.block_of(1), 0U);
  EXPECT_EQ(layout.elements_of(2), (Range{7, 17}));
  EXPECT_EQ(layout.stored(), 2 * 19U);
  EXPECT_EQ(layout.stored_states(1), (Range{14, 34}));
  EXPECT_EQ(layout.state_in_buffer(1, 0), (Range{6, 10}));
  EXPECT_EQ(layout.state_in_buffer(1, 1), (Range{10, 14}));
  EXPECT_EQ(layout.window(), 2 * 19U) << "three blocks are all";
}

TEST(OffloadedLayout, WeightsStandBeforeTheMoments) {
  const OffloadedLayout layout(with_two({3, 4, 10}), 5, Weights::kStored);
  EXPECT_TRUE(layout.stores_weights());
  EXPECT_EQ(layout.stored(), 3 * 17U);
  EXPECT_EQ(layout.stored_states(0), (Range{17, 31}));
  EXPECT_EQ(layout.weights_in_buffer(1), (Range{3, 7}));
  EXPECT_EQ(layout.state_in_buffer(1, 0), (Range{13, 17}));
}

/// A matrix between two norms, of which an optimizer keeps one number where it keeps two of these.
TEST(OffloadedLayout, TensorsMayHaveDifferentNumbersOfStates) {
  const Tensors tensors = {
      {.elements = 2, .states = 2}, {.elements = 10, .states = 1}, {.elements = 2, .states = 2}};
  const OffloadedLayout layout(tensors, 99, Weights::kStored);
  EXPECT_EQ(layout.stored(), 14U + 18U);
  EXPECT_EQ(layout.states(1), 1U);
  EXPECT_EQ(layout.stored_state(0, 1), (Range{16, 18}));
  EXPECT_EQ(layout.stored_state(1, 0), (Range{18, 28}));
  EXPECT_EQ(layout.state_in_buffer(2, 0), (Range{28, 30})) << "behind the weights of the block";
  EXPECT_EQ(layout.window(), 14U + 18U);
}

TEST(OffloadedLayout, ABufferIsAsLargeAsTheLargestOfItsBlocks) {
  const OffloadedLayout layout(with_two({1, 2, 3, 7, 5, 2}), 1, Weights::kStay);
  EXPECT_EQ(layout.buffers(), (std::array<std::size_t, kWindowBuffers>{14, 10, 6}));
  EXPECT_EQ(layout.window(), 30U);
}

TEST(OffloadedLayout, OfNothingIsEmpty) {
  const OffloadedLayout layout({}, 5, Weights::kStored);
  EXPECT_TRUE(layout.blocks().empty());
  EXPECT_EQ(layout.stored(), 0U);
  EXPECT_EQ(layout.window(), 0U);
}

class OffloadedLayoutTest : public test::RandomTest {};

TEST_F(OffloadedLayoutTest, BlocksCoverAllElementsOnceAndOnlyTheLastIsSmall) {
  for (int i = 0; i < 100; ++i) {
    Tensors tensors(random.between(1, 30));
    std::size_t numbers = 0;
    for (OffloadedTensor& of : tensors) {
      of = {.elements = random.between(0, 50), .states = random.between(1, 2)};
      numbers += of.elements * of.states;
    }
    const std::size_t least = random.between(1, 80);
    const OffloadedLayout layout(tensors, least, Weights::kStay);
    std::size_t tensor = 0;
    std::size_t element = 0;
    for (const OffloadedBlock& block : layout.blocks()) {
      EXPECT_EQ(block.tensors.begin, tensor);
      EXPECT_EQ(block.elements.begin, element);
      EXPECT_TRUE(block.elements.size() >= least || block.tensors.end == tensors.size());
      tensor = block.tensors.end;
      element = block.elements.end;
    }
    EXPECT_EQ(tensor, tensors.size());
    EXPECT_EQ(layout.blocks().back().elements.end, element);
    EXPECT_EQ(numbers, layout.stored());
  }
}

}  // namespace
}  // namespace ultra::zero
