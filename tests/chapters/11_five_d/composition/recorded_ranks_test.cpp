// What ranks of random meshes take and send, measured and recorded: to the byte.
//
// Covers: common/train/elsewhere/record_step.hpp
// Covers: common/comm/backend/meta/meta_world.hpp

#include "common/train/elsewhere/record_step.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "chapters/06_context_parallel/context_parallel.hpp"
#include "common/base/numeric.hpp"
#include "common/comm/engine/operation.hpp"
#include "common/comm/run_ranks.hpp"
#include "common/train/elsewhere/elsewhere.hpp"
#include "tests/chapters/11_five_d/composition/configuration.hpp"
#include "tests/chapters/11_five_d/composition/draw.hpp"
#include "tests/support/training/rank_runs.hpp"

namespace ultra::five_d {
namespace {

using five_d::test::Configuration;

/// What every rank took in a training; nothing in a process without rank 0.
std::vector<train::RankSummary> summaries(const Configuration& configuration) {
  std::vector<train::RankSummary> ranks;
  const train::Setup setup = setup_of(configuration);
  RankOptions options = setup.rank_options();
  options.progress = Progress::kOnCall;  // memory is free as soon as a rank lets go of it
  static_cast<void>(ultra::test::quietly([&] {
    run_ranks(
        checked_cast<int>(configuration.ranks()),
        [&](Communicator& world) {
          const train::TrainResult result = train::train_with(setup_of(configuration), world);
          if (world.rank() == 0) ranks = result.ranks;
        },
        options);
  }));
  return ranks;
}

/// What a technique allocates and frees where its program says so. Operations borrow the rest; and on
/// the host, a buffer of communication is free when its message has arrived.
constexpr MemoryCategory kExact[] = {MemoryCategory::kParameters, MemoryCategory::kGradients,
                                     MemoryCategory::kOptimizer, MemoryCategory::kActivations};

bool is_recordable(const train::Setup& setup) {
  const std::vector<train::Conflict> all = train::conflicts_with_recording(setup);
  return std::ranges::none_of(all, &train::Conflict::broken);
}

/// Whether nothing pads sequences or the batch: every rank has as many tokens.
bool spreads_evenly(const train::Setup& setup) {
  const auto* context = setup.find<context_parallel::ContextParallel>();
  if (context == nullptr ||
      setup.train.global_batch % static_cast<std::size_t>(setup.replicas()) != 0) {
    return false;
  }
  const bool alone = setup.ranks_along(context_parallel::kAxis) == 1;
  return alone || context_parallel::layout_of(setup, context->options()).padded_len() ==
                      setup.train.model.max_seq_len;
}

class RecordedRanks : public ultra::test::RandomTest {
 protected:
  /// Processes take longer to start.
  static int trials() { return launched_world_size() ? 4 : 40; }

  /// A training of one step that can be recorded. Of experts each token chooses all: what it would choose
  /// is numbers.
  Configuration draw() {
    const auto processes = launched_world_size();
    while (true) {
      Configuration one = five_d::test::draw_configuration(
          random, processes ? static_cast<std::size_t>(*processes) : 12);
      one = one.with("--steps", "1");
      one.goes_on = five_d::test::GoesOn::kNowhere;
      std::erase_if(one.model, [](const five_d::test::Flag& flag) {
        return flag.first.starts_with("--val") || flag.first.starts_with("--capacity") ||
               flag.first == "--head-z-loss";  // the CPU's alone
      });
      const bool has_experts = !one.value_of("--experts").empty();
      if (has_experts) {
        one = one.with("--top-k", one.value_of("--experts")).with("--seq", "24");
        one = one.with("--global-batch", "12");
      }
      if (!five_d::test::refusal_of(one).empty()) continue;
      const train::Setup setup = five_d::test::setup_of(one);
      if (is_recordable(setup) && (!has_experts || spreads_evenly(setup))) return one;
    }
  }

  /// @param on_host  whether the host computed: then what a router decides with is kept with the rest.
  static void expect_recorded(const Configuration& configuration, bool on_host) {
    SCOPED_TRACE(configuration.line());
    const train::Setup setup = five_d::test::setup_of(configuration);
    for (const train::RankSummary& rank : summaries(configuration)) {
      SCOPED_TRACE(rank.rank);
      const train::RecordedRank recorded = train::record_step(setup, rank.rank);
      for (const MemoryCategory category : kExact) {
        const bool is_routed = !configuration.value_of("--experts").empty();
        if (on_host && is_routed && category == MemoryCategory::kActivations) continue;
        EXPECT_EQ(recorded.memory.peak(category).bytes, rank.memory.peak(category).bytes)
            << to_string(category) << ", recorded in " << recorded.memory.peak(category).phase
            << ", measured in " << rank.memory.peak(category).phase;
      }
      for (const OpKind kind : kDataOpKinds) {
        EXPECT_EQ(recorded.sent[kind].sent_bytes, rank.communication[kind].sent_bytes)
            << to_string(kind);
      }
      if (::testing::Test::HasFailure()) return;
    }
  }
};

TEST_F(RecordedRanks, TakeAndSendWhatRanksOfTheHostTakeAndSend) {
  for (int trial = 0; trial < trials() && !HasFailure(); ++trial) expect_recorded(draw(), true);
}

TEST_F(RecordedRanks, TakeAndSendWhatRanksOfDevicesTakeAndSend) {
  for (int trial = 0; trial < trials() / 2 && !HasFailure(); ++trial) {
    Configuration one = draw();
    one.layout.emplace_back("--device", "emulated");
    expect_recorded(one, false);
  }
}

}  // namespace
}  // namespace ultra::five_d
