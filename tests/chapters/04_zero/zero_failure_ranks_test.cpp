// A rank that fails in the middle of a step ends all ranks, with gathers and reduce-scatters under
// way; ranks that do not agree are told so. Nobody waits for ever, and nothing stays in memory.

#include "tests/chapters/04_zero/zero_run.hpp"
#include "tests/support/ranks/rank_fates.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using namespace zero::test;
using ::testing::AnyOf;
using ultra::test::expect_told;
using ultra::test::Fates;
using ultra::test::is_a;
using ultra::test::kToldWithin;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

class ZeroFailure : public ZeroTest {
 protected:
  /// Several blocks, so that units are gathered ahead while gradients travel.
  ZeroCase draw_any(ZeroStage stage) {
    ZeroCase c = draw(static_cast<int>(random.between(2, 4)), stage, DType::kF32);
    c.options.model.num_layers = random.between(2, 3);
    c.options.steps = 3;
    return c;
  }

  /// Trains on ranks of which each makes its own changes, and expects that no tensor is left.
  using ChangesOf = std::function<StageChanges(const Communicator&)>;
  static Fates fates(const ZeroCase& c, const ChangesOf& changes_of,
                     const std::function<ZeroCase(int rank)>& case_of = {}) {
    std::vector<std::optional<Device>> devices(static_cast<std::size_t>(c.ranks));
    Fates found;
    quietly([&] {
      found = ultra::test::fates_of(
          c.ranks,
          [&](Communicator& dp) {
            StageChanges changes = changes_of(dp);
            changes.device = [&, limit = std::move(changes.device)](const Device& device) {
              devices[static_cast<std::size_t>(dp.rank())] = device;
              if (limit) limit(device);
            };
            static_cast<void>(train_zero(dp, case_of ? case_of(dp.rank()) : c, changes));
          },
          in_rank_order());
    });
    SCOPED_TRACE(c.str());
    if (launched_world_size()) return found;  // MPI keeps what nobody received until its end
    for (std::size_t rank = 0; rank < devices.size(); ++rank) {
      EXPECT_EQ(devices[rank].value().memory().current().total(), 0U) << "left by rank " << rank;
    }
    return found;
  }

  /// Every rank ended with one of two errors that say the same.
  template <class E>
  static void expect_all(const Fates& fates, const ZeroCase& c, const std::string& message) {
    SCOPED_TRACE(c.str());
    EXPECT_NE(fates.thrown, nullptr);
    if (!launched_world_size()) {
      EXPECT_TRUE(is_a<E>(fates.thrown));
    }
    for (const auto& [rank, fate] : fates.ranks) {
      SCOPED_TRACE(fmt::format("rank {}: {}", rank, fate.message));
      EXPECT_LT(fate.seconds, kToldWithin);
      EXPECT_THAT(fate.message, HasSubstr(message));
      EXPECT_TRUE(is_a<E>(fate.error) || is_a<RankFailed>(fate.error));
    }
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

// A rank that throws ------------------------------------------------------------------------------

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
      expect_told<NumericError>(fates(c,
                                      [&](const Communicator& dp) {
                                        return dp.rank() == guilty ? with_hook(step, hook)
                                                                   : StageChanges();
                                      }),
                                c.str(), guilty, "this block is broken");
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
    expect_told<NumericError>(
        fates(c,
              [&](const Communicator& dp) {
                StageChanges changes;
                if (dp.rank() != guilty) return changes;
                changes.rule = optim::adamw(
                    {}, [=](const Tensor& value, const Tensor& grad, const Tensor& first_moment,
                            const Tensor& second_moment, const ops::AdamWStep& constants) {
                      if (constants.step == step) throw NumericError("this optimizer is broken");
                      ops::adamw_into(value, grad, first_moment, second_moment, constants);
                    });
                return changes;
              }),
        c.str(), guilty, "this optimizer is broken");
  }
}

// A rank that runs out of memory ------------------------------------------------------------------

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
      expect_told<OutOfMemory>(fates(c,
                                     [&](const Communicator& dp) {
                                       StageChanges changes;
                                       if (dp.rank() == guilty) {
                                         changes.device = [=](const Device& own) {
                                           own.set_memory_limit(limit);
                                         };
                                       }
                                       return changes;
                                     }),
                               c.str(), guilty, "out of device memory");
    }
  }
}

// A loss that is no number ------------------------------------------------------------------------

TEST_F(ZeroFailure, AGradientThatIsNoNumberEndsAll) {
  for (const ZeroStage stage : kSharded) {
    ZeroCase c = draw_any(stage);
    c.settings.bucket_capacity = kEverything;
    expect_all<NumericError>(
        fates(c,
              [&](const Communicator& dp) {
                StageChanges changes;
                if (dp.rank() != 1) return changes;
                changes.observer = observing(
                    [hook = nn::HookHandle()](std::size_t step, nn::Model& model) mutable {
                      if (step != 2) return;
                      // The first that the backward pass makes, of a larger group.
                      hook = model.parameters().back()->on_grad_ready(
                          [](nn::Parameter& parameter) { parameter.grad().fill(kNaN); });
                    });
                return changes;
              }),
        c, "gradient norm is nan at step 2");
  }
}

// Ranks that do not agree -------------------------------------------------------------------------

class ZeroMismatch : public ZeroFailure {
 protected:
  /// The last rank has other settings.
  static Fates fates_with(const ZeroCase& c, const ZeroSettings& other) {
    return fates(
        c, [](const Communicator&) { return StageChanges(); },
        [&](int rank) {
          ZeroCase own = c;
          if (rank == c.ranks - 1) own.settings = other;
          return own;
        });
  }
  static void expect_mismatch(const ZeroCase& c, const ZeroSettings& other) {
    expect_all<CommMismatch>(fates_with(c, other), c, "call different operations");
  }
};

TEST_F(ZeroMismatch, AnotherPrefetchIsReported) {
  for (const auto& [one, other] :
       {std::pair{std::size_t{0}, std::size_t{1}}, std::pair{std::size_t{2}, std::size_t{1}}}) {
    ZeroCase c = draw_any(ZeroStage::kParameters);
    c.settings.prefetch = one;
    c.settings.reshard = Reshard::kAfterForward;
    ZeroSettings settings = c.settings;
    settings.prefetch = other;
    expect_mismatch(c, settings);
  }
}

TEST_F(ZeroMismatch, AnotherReshardIsReported) {
  ZeroCase c = draw_any(ZeroStage::kParameters);
  c.settings.reshard = Reshard::kAfterForward;
  ZeroSettings settings = c.settings;
  settings.reshard = Reshard::kAfterBackward;
  expect_mismatch(c, settings);
}

TEST_F(ZeroMismatch, OtherBucketsAreReported) {
  for (const ZeroStage stage : {ZeroStage::kOptimizer, ZeroStage::kGradients}) {
    ZeroCase c = draw_any(stage);
    c.settings.bucket_capacity = kEverything;
    ZeroSettings settings = c.settings;
    settings.bucket_capacity = 0;
    expect_mismatch(c, settings);
  }
}

TEST_F(ZeroMismatch, AnotherStageIsReported) {
  for (const ZeroStage one : kSharded) {
    for (const ZeroStage other : kSharded) {
      if (shards_parameters(one) == shards_parameters(other)) continue;
      const ZeroCase c = draw_any(one);
      ZeroSettings settings = c.settings;
      settings.stage = other;
      expect_mismatch(c, settings);
    }
  }
}

/// With stage 1 a rank adds up loss and norm, over all ranks, while those with stage 2 reduce the
/// second micro-batch's gradients among the replicas: a mismatch of two groups, in which all wait
/// for ever.
TEST_F(ZeroMismatch, Stages1And2AreReportedAsADeadlock) {
  if (launched_world_size()) GTEST_SKIP() << "processes do not see that all others wait too";
  for (const auto& [one, other] : {std::pair{ZeroStage::kOptimizer, ZeroStage::kGradients},
                                   std::pair{ZeroStage::kGradients, ZeroStage::kOptimizer}}) {
    ZeroCase c = draw_any(one);
    c.micro_batch = 1;  // with one micro-batch stages 1 and 2 communicate alike
    c.options.global_batch = 2 * static_cast<std::size_t>(c.ranks);
    ZeroSettings settings = c.settings;
    settings.stage = other;
    const Fates found = fates_with(c, settings);
    expect_all<Deadlock>(found, c, "[loss and norm]");
    for (const auto& [rank, fate] : found.ranks) {
      EXPECT_THAT(fate.message, AnyOf(HasSubstr("[reduce bucket"), HasSubstr("[loss and norm]")));
      EXPECT_LT(fate.seconds, kToldWithin);
    }
  }
}

}  // namespace
}  // namespace ultra::zero
