// Rows that travel in bf16: all ranks compute with rounded weights, the owner's stay exact, and half as
// many bytes are sent.
//
// Covers: chapters/04_zero/rows/row_parts.hpp

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "common/optim/rules.hpp"
#include "tests/chapters/04_zero/zero_run.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using namespace zero::test;

class GatheredRows : public ZeroTest {
 protected:
  ZeroCase draw_rounding(int ranks, DType dtype) {
    ZeroCase c = draw(ranks, ZeroStage::kParameters, dtype);
    c.settings.cut = ShardCut::kRows;
    c.settings.gather = DType::kBF16;
    c.options.steps = 3;
    c.options.clip_norm = 0;  // or the norm's last bit enters
    c.micro_batch = c.largest_share();
    return c;
  }
};

/// Plain data parallelism by hand: exact weights beside those of the passes, which are rounded after each
/// update.
class RoundedWeights final : public optim::RuleAround {
 public:
  RoundedWeights(optim::Rule rule, std::vector<Tensor> exact)
      : RuleAround(std::move(rule)), exact_(std::move(exact)) {}

 private:
  void change(std::size_t i, const optim::TensorUpdate& update, const optim::StepConstants&,
              const ByRule& by_rule) const override {
    by_rule(exact_[i], update.grad);
    cast_into(update.value, cast(exact_[i], DType::kBF16));
  }

  std::vector<Tensor> exact_;  // by piece
};

TEST_F(GatheredRows, AreThoseOfOneRankThatRoundsItsWeightsBitForBit) {
  for (const int ranks : {1, 2, 3, 5}) {
    const ZeroCase c = draw_rounding(ranks, random.pick({DType::kF32, DType::kF64}));
    on_ranks(c, [&](Communicator& dp) {
      SCOPED_TRACE(c.str());
      nn::DenseFactory factory;
      const nn::Model initial(c.options.model, Device::cpu(), c.options.dtype, c.options.seed,
                              factory);
      std::vector<Tensor> exact;
      for (const nn::Parameter* parameter : initial.parameters()) {
        exact.push_back(parameter->value());
      }
      StageChanges changes;
      changes.rule = std::make_shared<const RoundedWeights>(optim::make_rule("adamw"), exact);
      changes.exchange = [](const train::StatesScope& scope) {
        return collectives::sum_after_backward(scope.parameters, scope.data);
      };
      changes.observer = observing([](std::size_t step, nn::Model& model) {
        for (const nn::Parameter* parameter : model.parameters()) {
          if (step == 1) cast_into(parameter->value(), cast(parameter->value(), DType::kBF16));
        }
      });
      const RankRun by_hand = ultra::test::run_of(zero_setup(dp, c, changes), dp);
      const ZeroRun run = run_zero(dp, c);
      EXPECT_EQ(ultra::test::losses_of(run.result), ultra::test::losses_of(by_hand.result));
      for (std::size_t p = 0; p < exact.size(); ++p) {
        EXPECT_TRUE(run.weights[p] == exact[p].to_vector()) << initial.parameters()[p]->name();
      }
    });
  }
}

TEST_F(GatheredRows, SendHalfTheBytesOfF32AndAQuarterOfF64) {
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    const ZeroCase rounded = draw_rounding(3, dtype);
    ZeroCase exact = rounded;
    exact.settings.gather.reset();
    on_ranks(
        rounded,
        [&](Communicator& dp) {
          const auto gathered = [&](const ZeroCase& c, OpKind kind) {
            const train::TrainResult result = train_zero(dp, c);
            return result.ranks.front().communication[kind].sent_bytes;
          };
          const std::size_t all = gathered(exact, OpKind::kAllGather);
          EXPECT_GT(all, 0U);
          EXPECT_EQ(gathered(rounded, OpKind::kAllGather) * size_of(dtype), all * 2);
          EXPECT_EQ(gathered(rounded, OpKind::kReduceScatter),
                    gathered(exact, OpKind::kReduceScatter));
        },
        in_rank_order(Progress::kOnCall));
  }
}

}  // namespace
}  // namespace ultra::zero
