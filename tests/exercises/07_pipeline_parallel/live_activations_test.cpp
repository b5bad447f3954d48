// Contract of exercise 07.6: what is in memory at a time.
#include "chapters/07_pipeline_parallel/schedule/live_activations.hpp"

#include <map>
#include <set>

#include "tests/support/toolbox.hpp"

namespace ultra::pipeline_parallel {
namespace {

using train::Action;
using train::ActionKind;

constexpr const char* kWeight =
    "Hint: of what is the gradient of a weight made? Look for the last pass that needs what F has "
    "saved.";
constexpr const char* kPeak = "Hint: asked for is the most at a time, not what is left at the end.";
constexpr const char* kChunks =
    "Hint: a micro-batch has activations in every chunk that it has passed.";

constexpr const char* kSplit =
    "Hint: B lets go of what W does not need; W of the rest; a whole backward pass of both.";
constexpr const char* kOfChunk = "Hint: each chunk has bytes of its own: chunks[action.chunk].";

class LiveActivations : public ultra::test::RandomTest {
 protected:
  /// A random list of micro-batches in two chunks, some of them with B and W apart, and, pass by
  /// pass, the set of what is kept.
  std::pair<train::StepSchedule, std::size_t> draw(std::size_t micro_batches, std::size_t chunks) {
    struct State {
      Action next;
      bool is_over = false;
    };
    std::vector<State> states;
    for (std::size_t i = 0; i < micro_batches; ++i) {
      for (std::size_t c = 0; c < chunks; ++c) states.push_back({{ActionKind::kForward, i, c}});
    }
    train::StepSchedule list;
    std::set<std::pair<std::size_t, std::size_t>> kept;
    std::size_t peak = 0;
    for (std::size_t left = states.size(); left > 0;) {
      State& state = states[random.between(0, states.size() - 1)];
      if (state.is_over) continue;
      list.push_back(state.next);
      if (state.next.kind == ActionKind::kForward) {
        kept.insert({state.next.micro_batch, state.next.chunk});
        peak = std::max(peak, kept.size());
        state.next.kind =
            random.between(0, 1) == 0 ? ActionKind::kBackward : ActionKind::kBackwardInput;
      } else if (state.next.kind == ActionKind::kBackwardInput) {
        state.next.kind = ActionKind::kBackwardWeight;
      } else {
        kept.erase({state.next.micro_batch, state.next.chunk});
        state.is_over = true;
        --left;
      }
    }
    return {list, peak};
  }
};

TEST_F(LiveActivations, OfListsThatCanBeCountedByHand) {
  using enum ActionKind;
  EXPECT_EQ(peak_live_activations({}), 0U);
  const train::StepSchedule one_by_one = {
      {kForward, 0}, {kBackward, 0}, {kForward, 1}, {kBackward, 1}};
  EXPECT_EQ(peak_live_activations(one_by_one), 1U) << kPeak;
  const train::StepSchedule all = {{kForward, 0}, {kForward, 1}, {kBackward, 0}, {kBackward, 1}};
  EXPECT_EQ(peak_live_activations(all), 2U) << kPeak;
  const train::StepSchedule split = {{kForward, 0},        {kBackwardInput, 0},
                                     {kForward, 1},        {kBackwardInput, 1},
                                     {kBackwardWeight, 0}, {kBackwardWeight, 1}};
  EXPECT_EQ(peak_live_activations(split), 2U) << kWeight;
  const train::StepSchedule chunks = {
      {kForward, 0, 0}, {kForward, 0, 1}, {kBackward, 0, 1}, {kBackward, 0, 0}};
  EXPECT_EQ(peak_live_activations(chunks), 2U) << kChunks;
}

TEST_F(LiveActivations, BytesThatCanBeCountedByHand) {
  using enum ActionKind;
  EXPECT_EQ(peak_saved_bytes({}, {}), 0.0);
  const std::vector<SavedBytes> two = {{.by_forward = 10, .for_weights = 4},
                                       {.by_forward = 3, .for_weights = 1}};
  // 10, 4 behind B0, 14 with F1, 8 behind B1, 4, 0.
  const train::StepSchedule split = {{kForward, 0},        {kBackwardInput, 0},
                                     {kForward, 1},        {kBackwardInput, 1},
                                     {kBackwardWeight, 0}, {kBackwardWeight, 1}};
  EXPECT_EQ(peak_saved_bytes(split, two), 14.0) << kSplit;
  // 10, 13, 10, 0, 10, 13.
  const train::StepSchedule chunks = {{kForward, 0, 0},  {kForward, 0, 1}, {kBackward, 0, 1},
                                      {kBackward, 0, 0}, {kForward, 1, 0}, {kForward, 1, 1}};
  EXPECT_EQ(peak_saved_bytes(chunks, two), 13.0) << kOfChunk << "\n" << kSplit;
}

// Beside another account: what each micro-batch keeps in each chunk behind each pass, added up afresh.
TEST_F(LiveActivations, OfRandomLists) {
  for (int round = 0; round < 100; ++round) {
    const auto [list, peak] = draw(random.between(1, 8), random.between(1, 2));
    std::vector<SavedBytes> chunks;
    for (int chunk = 0; chunk < 2; ++chunk) {
      const auto for_weights = static_cast<double>(random.between(0, 50));
      chunks.push_back({for_weights + static_cast<double>(random.between(1, 50)), for_weights});
    }
    std::map<std::pair<std::size_t, std::size_t>, double> kept;
    double most = 0;
    std::string text;
    for (const Action& action : list) {
      text += action.str() + " ";
      const SavedBytes& saved = chunks[action.chunk];
      kept[{action.micro_batch, action.chunk}] =
          action.kind == ActionKind::kForward         ? saved.by_forward
          : action.kind == ActionKind::kBackwardInput ? saved.for_weights
                                                      : 0.0;
      double all = 0;
      for (const auto& [where, bytes] : kept) all += bytes;
      most = std::max(most, all);
    }
    EXPECT_EQ(peak_live_activations(list), peak) << text << "\n" << kWeight << "\n" << kPeak;
    EXPECT_EQ(peak_saved_bytes(list, chunks), most) << text << "\n" << kSplit << "\n" << kOfChunk;
  }
}

}  // namespace
}  // namespace ultra::pipeline_parallel
