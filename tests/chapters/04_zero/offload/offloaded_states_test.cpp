#include "chapters/04_zero/offload/offloaded_states.hpp"

#include "chapters/04_zero/offload/offloaded_layout.hpp"
#include "tests/chapters/04_zero/checkpoints/late_file.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using namespace test;
using Log = LateFile::Log;

using OffloadedStatesTest = test::RandomTest;

/// Block 1 is asked for before block 0 is waited for; block 0's write is waited for when its buffer
/// is needed by block 3, whose read begins after it.
TEST_F(OffloadedStatesTest, ReadsAndWritesOverlapInThisOrder) {
  Log log;
  const std::vector<OffloadedTensor> tensors(4, {.elements = 10, .states = 2});
  OffloadedStates states(offload_late(Offload::kOptimizer, 8, &log), tensors, device, DType::kF32);
  for (std::size_t i = 0; i < 4; ++i) {
    static_cast<void>(states.borrow(i));
    log.push_back("update");
    states.give_back(i);
  }
  states.end_step();
  const Log expected = {
      "read 0 80",   "read 80 80",         "waited read 0 80", "update",       "write 0 80",
      "read 160 80", "waited read 80 80",  "update",           "write 80 80",  "waited write 0 80",
      "read 240 80", "waited read 160 80", "update",           "write 160 80", "waited read 240 80",
      "update",      "write 240 80"};
  EXPECT_EQ(log, expected) << "and the last three writes go on";
}

TEST_F(OffloadedStatesTest, OnlyTheWindowIsOnTheDevice) {
  const std::vector<OffloadedTensor> tensors(20, {.elements = 100, .states = 2});
  const OffloadedStates states(offload_late(Offload::kOptimizer, 800), tensors, device,
                               DType::kF32);
  EXPECT_EQ(device.memory().current().total(), 3 * 800U);
  EXPECT_EQ(device.memory().current()[MemoryCategory::kOptimizer], 3 * 800U);
  EXPECT_EQ(states.use().stored_bytes, 20 * 800U);
}

TEST_F(OffloadedStatesTest, WeightsAreReadAfterTheirLastWrite) {
  const std::vector<OffloadedTensor> tensors(5, {.elements = 10, .states = 2});
  OffloadedStates states(offload_late(Offload::kOptimizerAndParameters, 8), tensors, device,
                         DType::kF32);
  const Tensor weights = random.tensor(device, {50}, DType::kF32);
  states.write_weights({0, 50}, weights);
  for (std::size_t i = 0; i < 5; ++i) {
    static_cast<void>(states.borrow(i));
    const Tensor own = states.weights_in_window(i);
    EXPECT_EQ(own.to_vector(), weights.slice(0, {10 * i, 10 * i + 10}).to_vector());
    own.fill(static_cast<double>(i));
    states.give_back(i);
  }
  states.end_step();
  const Tensor found = Tensor::empty(device, {20}, DType::kF32);
  WeightsRead read = states.read_weights_async({30, 50}, found);
  states.finish_read(read, "weights");
  std::vector<double> expected(10, 3.0);
  expected.insert(expected.end(), 10, 4.0);
  EXPECT_EQ(found.to_vector(), expected);
  EXPECT_EQ(states.use().weights.read_bytes, 80U);
}

/// What a checkpoint does, behind a step whose last writes are on their way.
TEST_F(OffloadedStatesTest, MomentsAreReadAndWrittenAfterTheirLastWrite) {
  const std::vector<OffloadedTensor> tensors(5, {.elements = 10, .states = 2});
  OffloadedStates states(offload_late(Offload::kOptimizer, 8), tensors, device, DType::kF32);
  const auto expect_moments = [&](double first, double second) {
    const std::vector<Tensor> own = {Tensor::empty(device, {10}, DType::kF32),
                                     Tensor::empty(device, {10}, DType::kF32)};
    states.read_states(4, own);
    EXPECT_THAT(own[0].to_vector(), Each(first));
    EXPECT_THAT(own[1].to_vector(), Each(second));
  };
  const auto step = [&](double first) {
    for (std::size_t i = 0; i < 5; ++i) {
      const std::vector<Tensor> moments = states.borrow(i);
      moments[0].fill(first);
      moments[1].fill(first + 1);
      states.give_back(i);
    }
    states.end_step();
  };
  step(3);
  expect_moments(3, 4);
  step(5);
  states.write_states(4, std::vector<Tensor>{test::filled(device, {10}, DType::kF32, 7),
                                             test::filled(device, {10}, DType::kF32, 8)});
  expect_moments(7, 8);
}

TEST_F(OffloadedStatesTest, WithoutTensorsNothingIsThere) {
  OffloadedStates states(offload_late(Offload::kOptimizer, 8), {}, device, DType::kF32);
  states.end_step();
  states.settle();
  EXPECT_EQ(states.use().stored_bytes, 0U);
}

TEST_F(OffloadedStatesTest, TheTimelineShowsReadsAndWrites) {
  trace::TraceRecorder recorder(0);
  trace::StepTimeline timeline(device, &recorder, 1);
  const std::vector<OffloadedTensor> tensors(4, {.elements = 10, .states = 2});
  OffloadedStates states(offload_late(Offload::kOptimizer, 8), tensors, device, DType::kF32);
  show_storage_on(states, timeline);
  timeline.begin_step(1);
  for (std::size_t i = 0; i < 4; ++i) {
    static_cast<void>(states.borrow(i));
    states.give_back(i);
  }
  states.end_step();
  timeline.begin_step(2);  // not recorded any more
  static_cast<void>(states.borrow(0));
  const std::string json = recorder.json();
  EXPECT_THAT(json, HasSubstr("\"read block 1\""));
  EXPECT_THAT(json, HasSubstr("\"write block 0\""));
  EXPECT_THAT(json, HasSubstr("\"storage\""));
  EXPECT_THAT(json, HasSubstr("\"storage waiting\""));
  EXPECT_THAT(json, Not(HasSubstr("\"write block 3\"")));
}

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

class OffloadedLayoutTest : public RandomTest {};

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
