#include "chapters/04_zero/offload/offloaded_states.hpp"

#include <nlohmann/json.hpp>

#include "chapters/04_zero/offload/offloaded_layout.hpp"
#include "common/optim/adamw.hpp"
#include "common/optim/optimizer.hpp"
#include "tests/chapters/04_zero/checkpoints/late_file.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using test::LateFile;
using test::offload_late;
using Log = LateFile::Log;

class OffloadedStatesTest : public ultra::test::RandomTest {
 protected:
  /// Weights with gradients.
  std::vector<optim::TensorUpdate> draw_updates(std::size_t tensors) {
    std::vector<optim::TensorUpdate> updates;
    for (std::size_t i = 0; i < tensors; ++i) {
      const Shape shape{random.between(1, 5), random.between(1, 9)};
      updates.push_back({.value = random.tensor(cpu, shape, DType::kF32),
                         .grad = random.tensor(cpu, shape, DType::kF32),
                         .decay = random.between(0, 1) == 1});
    }
    return updates;
  }

  static std::vector<optim::TensorUpdate> copies(const std::vector<optim::TensorUpdate>& updates) {
    std::vector<optim::TensorUpdate> copied;
    for (const optim::TensorUpdate& update : updates) {
      copied.push_back({.value = update.value.clone(), .grad = update.grad, .decay = update.decay});
    }
    return copied;
  }

  std::shared_ptr<OffloadedStates> states_of(const std::vector<optim::TensorUpdate>& updates,
                                             const OffloadSettings& settings) {
    std::vector<OffloadedTensor> tensors;
    for (const optim::TensorUpdate& update : updates) tensors.push_back({update.value.numel(), 2});
    return std::make_shared<OffloadedStates>(settings, tensors, cpu, DType::kF32);
  }

  static std::vector<double> states_in(optim::StateStore& store, std::size_t i,
                                       const Tensor& value) {
    const std::vector<Tensor> copy = {value.clone(), value.clone()};
    store.read(i, copy);
    std::vector<double> all = copy[0].to_vector();
    for (const double number : copy[1].to_vector()) all.push_back(number);
    return all;
  }

  static void expect_equal(optim::Optimizer& actual, optim::Optimizer& expected,
                           const std::vector<optim::TensorUpdate>& updates) {
    for (std::size_t i = 0; i < updates.size(); ++i) {
      EXPECT_EQ(states_in(actual.store(), i, updates[i].value),
                states_in(expected.store(), i, updates[i].value));
    }
  }

  Device cpu = Device::cpu();
};

TEST_F(OffloadedStatesTest, AdamWIsTheSameBitForBit) {
  for (int i = 0; i < 20; ++i) {
    const auto on_device = draw_updates(random.between(1, 12));
    const auto elsewhere = copies(on_device);
    optim::Optimizer expected(optim::adamw());
    optim::Optimizer actual(
        optim::adamw(), offloaded_store(states_of(
                            elsewhere, offload_late(Offload::kOptimizer, random.between(1, 400)))));
    for (int step = 0; step < 4; ++step) {
      expected.step(on_device, 0.01, 1.0);
      actual.step(elsewhere, 0.01, 1.0);
      if (random.between(0, 1) == 1) expect_equal(actual, expected, on_device);
    }
    expect_equal(actual, expected, on_device);
    for (std::size_t t = 0; t < on_device.size(); ++t) {
      EXPECT_EQ(elsewhere[t].value.to_vector(), on_device[t].value.to_vector());
    }
  }
}

/// What a checkpoint does.
TEST_F(OffloadedStatesTest, AnOptimizerGoesOnFromMomentsThatAreWritten) {
  const auto updates = draw_updates(7);
  optim::Optimizer first(optim::adamw());
  first.step(updates, 0.01, 1.0);
  const auto later = copies(updates);
  std::vector<Tensor> values;
  for (const auto& update : later) values.push_back(update.value);
  optim::Optimizer second(
      optim::adamw(), offloaded_store(states_of(later, offload_late(Offload::kOptimizer, 100))));
  second.resume(1, values);
  for (std::size_t i = 0; i < updates.size(); ++i) {
    const std::vector<Tensor> states = {values[i].clone(), values[i].clone()};
    first.store().read(i, states);
    second.store().write(i, states);
  }
  first.step(updates, 0.01, 1.0);
  second.step(later, 0.01, 1.0);
  expect_equal(second, first, updates);
  for (std::size_t i = 0; i < updates.size(); ++i) {
    EXPECT_EQ(later[i].value.to_vector(), updates[i].value.to_vector());
  }
}

/// Block 1 is asked for before block 0 is waited for; block 0's write is waited for when its buffer
/// is needed by block 3, whose read begins after it.
TEST_F(OffloadedStatesTest, ReadsAndWritesOverlapInThisOrder) {
  Log log;
  const std::vector<OffloadedTensor> tensors(4, {.elements = 10, .states = 2});
  OffloadedStates states(offload_late(Offload::kOptimizer, 8, &log), tensors, cpu, DType::kF32);
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
  const OffloadedStates states(offload_late(Offload::kOptimizer, 800), tensors, cpu, DType::kF32);
  EXPECT_EQ(cpu.memory().current().total(), 3 * 800U);
  EXPECT_EQ(cpu.memory().current()[MemoryCategory::kOptimizer], 3 * 800U);
  EXPECT_EQ(states.use().stored_bytes, 20 * 800U);
}

TEST_F(OffloadedStatesTest, WeightsAreReadAfterTheirLastWrite) {
  const std::vector<OffloadedTensor> tensors(5, {.elements = 10, .states = 2});
  OffloadedStates states(offload_late(Offload::kOptimizerAndParameters, 8), tensors, cpu,
                         DType::kF32);
  const Tensor weights = random.tensor(cpu, {50}, DType::kF32);
  states.write_weights({0, 50}, weights);
  for (std::size_t i = 0; i < 5; ++i) {
    static_cast<void>(states.borrow(i));
    const Tensor own = states.weights_in_window(i);
    EXPECT_EQ(own.to_vector(), weights.slice(0, {10 * i, 10 * i + 10}).to_vector());
    own.fill(static_cast<double>(i));
    states.give_back(i);
  }
  states.end_step();
  const Tensor found = Tensor::empty(cpu, {20}, DType::kF32);
  WeightsRead read = states.read_weights_async({30, 50}, found);
  states.finish_read(read, "weights");
  std::vector<double> expected(10, 3.0);
  expected.insert(expected.end(), 10, 4.0);
  EXPECT_EQ(found.to_vector(), expected);
  EXPECT_EQ(states.use().weights.read_bytes, 80U);
}

TEST_F(OffloadedStatesTest, WithoutTensorsNothingIsThere) {
  OffloadedStates states(offload_late(Offload::kOptimizer, 8), {}, cpu, DType::kF32);
  states.end_step();
  states.settle();
  EXPECT_EQ(states.use().stored_bytes, 0U);
}

TEST_F(OffloadedStatesTest, TheTimelineShowsReadsAndWrites) {
  trace::TraceRecorder recorder(0);
  trace::StepTimeline timeline(cpu, &recorder, 1);
  const std::vector<OffloadedTensor> tensors(4, {.elements = 10, .states = 2});
  OffloadedStates states(offload_late(Offload::kOptimizer, 8), tensors, cpu, DType::kF32);
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
