// Shards of whole rows beside flat ones: the same training, bit for bit, and what their copies take. What
// each pads, keeps and sends is in frozen_ranks_test.cpp.
//
// Covers: chapters/04_zero/rows/row_parts.hpp

#include "common/optim/rules.hpp"
#include "tests/chapters/04_zero/zero_run.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using namespace zero::test;

class RowShards : public ZeroTest {
 protected:
  ZeroCase draw_cut(int ranks, ShardCut cut) {
    ZeroCase c = draw(ranks, ZeroStage::kParameters, random.pick({DType::kF32, DType::kF64}));
    c.settings.cut = cut;
    c.options.steps = 2;
    return c;
  }
  static ZeroCase by_rows(ZeroCase c) {
    c.settings.cut = ShardCut::kRows;
    return c;
  }
};

/// An element is updated alike in whatever shard it is, and its gradient is added up in the order of the
/// ranks. The norm is not: it adds up squares shard by shard.
TEST_F(RowShards, AreFlatShardsBitForBit) {
  for (const auto& [ranks, node] : {std::pair{1, 1}, {2, 2}, {3, 3}, {4, 2}, {5, 5}, {8, 8}}) {
    ZeroCase flat = draw_cut(ranks, ShardCut::kFlat);
    if (node != ranks) flat.node_size = static_cast<std::size_t>(node);
    if (flat.options.dtype == DType::kF64) flat.options.clip_norm = 0;
    if (random.between(0, 1) == 0) flat.settings.offload.what = Offload::kOptimizer;
    flat.options.optimizer = random.pick<std::string>({"adamw", "muon"});
    on_ranks(flat, [&](Communicator& dp) {
      SCOPED_TRACE(flat.options.optimizer);
      expect_same_bits(run_zero(dp, by_rows(flat)), run_zero(dp, flat));
    });
  }
}

/// A unit is there twice while it is copied: gathered, rank by rank, and whole, tensor by tensor. Beside
/// the gradients of a unit, made tensor by tensor, stand the copies that travel.
TEST_F(RowShards, TakeOneMoreUnitWhereTheyAreCopied) {
  ZeroCase c = draw_cut(3, ShardCut::kFlat);
  c.settings.overlap = Overlap::kOff;
  c.settings.prefetch = 0;
  c.options.model = {.vocab_size = data::kByteVocabulary,
                     .hidden_size = 48,
                     .num_layers = 2,
                     .num_heads = 4,
                     .num_kv_heads = 4,
                     .ffn_hidden_size = 192,
                     .max_seq_len = 4};
  c.settings.reshard = Reshard::kAfterForward;
  std::size_t block = 0;  // nothing to pad, and the largest unit
  nn::DenseFactory factory;
  nn::Model model = deferred_model(c, factory);
  for (const nn::Parameter* parameter : model.parts()[1].parameters) {
    block += parameter->count() * size_of(c.options.dtype);
  }
  std::vector<std::size_t> peaks;
  for (const ZeroCase& cut : {c, by_rows(c)}) {
    on_ranks(
        cut,
        [&](Communicator& dp) {
          const train::TrainResult own = train_zero(dp, cut);
          if (dp.rank() == 0) {
            peaks.push_back(own.ranks.front().memory.peak(MemoryCategory::kCommunication).bytes);
          }
        },
        in_rank_order(Progress::kOnCall));
  }
  if (peaks.empty()) return;  // under mpirun: another process has them
  EXPECT_EQ(peaks.back() - peaks.front(), block);
}

// Rows that travel in bf16: all ranks compute with rounded weights, the owner's stay exact, and half as
// many bytes are sent.

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
      const RankRun by_hand = run_of(zero_setup(dp, c, changes), dp);
      const ZeroRun run = run_zero(dp, c);
      EXPECT_EQ(losses_of(run.result), losses_of(by_hand.result));
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
