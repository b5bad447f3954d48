// A rank that fails in the middle of a step ends all ranks, with gathers and reduce-scatters under
// way. Nobody waits for ever, and nothing stays in memory.

#include "chapters/04_zero/zero_plus_plus/zero_plus_plus_options.hpp"
#include "tests/chapters/04_zero/zero_run.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using namespace zero::test;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

class ZeroFailure : public ZeroTest {
 protected:
  /// Several blocks, so that units are gathered ahead while gradients travel.
  ZeroCase draw_any(ZeroStage stage) {
    ZeroCase c = draw(static_cast<int>(random.between(2, 4)), stage, DType::kF32);
    c.options.model.num_layers = random.between(2, 3);
    c.options.steps = 3;
    if (stage == ZeroStage::kParameters && random.between(0, 1) == 1) {
      c.settings.cut = ShardCut::kFlat;
      c.settings.plus_plus = parse_techniques("weights-int8,gradients-int4");
    }
    return c;
  }

  /// Trains on ranks of which one makes changes.
  static Fates fates(const ZeroCase& c, int guilty, const StageChanges& changes) {
    return fates_of_ranks(
        c, [&](int rank) { return std::pair(c, rank == guilty ? changes : StageChanges()); });
  }
};

/// A rank's changes: from step `from` on the model has another hook.
StageChanges with_hook(std::size_t from, const nn::PartHook& hook) {
  StageChanges changes;
  changes.observer =
      observing([=, handle = nn::HookHandle()](std::size_t step, nn::Model& model) mutable {
        if (step == from) handle = model.add_part_hook(hook);
      });
  return changes;
}

/// Throws before or after a part computes.
std::function<void(const nn::PartCall&)> broken(std::size_t part, bool before) {
  return [=](const nn::PartCall& call) {
    if (!before) call.compute();
    if (call.part == part) throw NumericError("this block is broken");
    if (before) call.compute();
  };
}

TEST_F(ZeroFailure, ARankThatThrowsInAPassEndsAll) {
  for (const ZeroStage stage : kSharded) {
    for (const auto& [forward, before] :
         {std::pair{true, true}, {true, false}, {false, true}, {false, false}}) {
      const ZeroCase c = draw_any(stage);
      const int guilty = static_cast<int>(random.between(0, static_cast<std::size_t>(c.ranks) - 1));
      const std::size_t block = random.between(0, c.options.model.num_layers - 1);
      const std::size_t step = random.between(1, 3);
      nn::PartHook hook;
      (forward ? hook.forward : hook.backward) = broken(block + 1, before);
      expect_told<NumericError>(fates(c, guilty, with_hook(step, hook)), c.str(), guilty,
                                "this block is broken");
    }
  }
}

TEST_F(ZeroFailure, ARankThatThrowsInItsOptimizerEndsAll) {
  for (const ZeroStage stage : kSharded) {
    ZeroCase c = draw_any(stage);
    if (random.between(0, 1) == 1) {
      c.ranks = 4;
      c.node_size = 2;
      c.options.global_batch = 6;
    }
    const int guilty = c.ranks - 1;
    const int step = static_cast<int>(random.between(1, 3));
    StageChanges changes;
    changes.rule =
        optim::adamw({}, [=](const Tensor& value, const Tensor& grad, const Tensor& first_moment,
                             const Tensor& second_moment, const ops::AdamWStep& constants) {
          if (constants.step == step) throw NumericError("this optimizer is broken");
          ops::adamw_into(value, grad, first_moment, second_moment, constants);
        });
    expect_told<NumericError>(fates(c, guilty, changes), c.str(), guilty,
                              "this optimizer is broken");
  }
}

TEST_F(ZeroFailure, OneRankWithoutMemoryEndsAll) {
  for (const ZeroStage stage : kSharded) {
    const ZeroCase c = draw_any(stage);
    const int guilty = static_cast<int>(random.between(0, static_cast<std::size_t>(c.ranks) - 1));
    std::size_t peak = 0;
    on_ranks(c, [&](Communicator& dp) {
      const train::TrainResult result = train_zero(dp, c);
      if (dp.rank() == guilty) {
        peak = result.ranks[static_cast<std::size_t>(guilty)].memory.peak_total().bytes;
      }
    });
    for (const double part : {0.1, 0.5, 0.7, 0.9}) {
      const auto limit = static_cast<std::size_t>(part * static_cast<double>(peak));
      StageChanges changes;
      changes.device = [=](const Device& own) { own.set_memory_limit(limit); };
      expect_told<OutOfMemory>(fates(c, guilty, changes), c.str(), guilty, "out of device memory");
    }
  }
}

TEST_F(ZeroFailure, AGradientThatIsNoNumberEndsAll) {
  for (const ZeroStage stage : kSharded) {
    ZeroCase c = draw_any(stage);
    c.settings.bucket_capacity = kEverything;
    StageChanges changes;
    changes.observer =
        observing([hook = nn::HookHandle()](std::size_t step, nn::Model& model) mutable {
          if (step != 2) return;
          // The first that the backward pass makes, of a larger group.
          hook = model.parameters().back()->on_grad_ready(
              [](nn::Parameter& parameter) { parameter.grad().fill(kNaN); });
        });
    const Fates found = fates(c, 1, changes);
    SCOPED_TRACE(c.str());
    EXPECT_NE(found.thrown, nullptr);
    for (const auto& [rank, fate] : found.ranks) {
      SCOPED_TRACE(fmt::format("rank {}: {}", rank, fate.message));
      EXPECT_LT(fate.seconds, kToldWithin);
      EXPECT_THAT(fate.message, HasSubstr("gradient norm is nan at step 2"));
      EXPECT_TRUE(is_a<NumericError>(fate.error) || is_a<RankFailed>(fate.error));
    }
  }
}

}  // namespace
}  // namespace ultra::zero
