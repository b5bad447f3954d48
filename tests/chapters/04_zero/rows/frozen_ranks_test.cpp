// Parameters that are frozen, in every stage and in both cuts: the training of one rank, weights that stay
// what they were, and closed forms for what is kept and sent.
//
// Covers: common/train/weights/frozen_weights.hpp, chapters/04_zero/rows/row_parts.hpp

#include <fmt/ranges.h>

#include "common/optim/rules.hpp"
#include "common/train/weights/frozen_weights.hpp"
#include "tests/chapters/04_zero/zero_run.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero {
namespace {

using namespace zero::test;
using train::RankSummary;
using Patterns = std::vector<std::string>;

/// Of whole units, which every cut can have; and of some of a unit's parameters.
const std::vector<Patterns> kUnits = {
    {"model.layers.0."}, {"embed_tokens"}, {"model.norm", "lm_head"}, {"model.layers."}};
const std::vector<Patterns> kMixed = {{"norm"},
                                      {"q_proj", "down_proj"},
                                      {"model.layers.0.mlp"},
                                      {"self_attn", "embed_tokens"},
                                      {"lm_head"}};

class FrozenTraining : public ZeroTest {
 protected:
  ZeroCase draw_frozen(int ranks, ZeroStage stage, DType dtype) {
    ZeroCase c = draw(ranks, stage, dtype);
    c.options.steps = 3;
    c.options.optimizer = random.pick<std::string>({"adamw", "muon", "sgd"});
    const bool flat_units = stage == ZeroStage::kParameters && c.settings.cut == ShardCut::kFlat;
    const auto& patterns = flat_units || random.between(0, 2) == 0 ? kUnits : kMixed;
    c.options.freeze = patterns[random.between(0, patterns.size() - 1)];
    return c;
  }

  static std::string text_of(const ZeroCase& c) {
    return fmt::format("{}, {}, frozen: {}", c.str(), c.options.optimizer,
                       fmt::join(c.options.freeze, ","));
  }
};

TEST_F(FrozenTraining, IsPlainDataParallelismBitForBitAndThatOfOneRank) {
  for (const auto& [ranks, node] : {std::pair{1, 1}, {2, 2}, {3, 3}, {4, 2}, {5, 5}}) {
    for (const ZeroStage stage : kSharded) {
      ZeroCase c = draw_frozen(ranks, stage, DType::kF64);
      c.options.clip_norm = 0;  // or the norm's last bit enters
      c.micro_batch = c.largest_share();
      on_ranks(c, [&](Communicator& dp) {
        SCOPED_TRACE(text_of(c));
        const ZeroRun run = run_zero(dp, c);
        expect_same_bits(run, run_plain(dp, c));
        const RankRun one = run_alone(dp, c.options);
        expect_near_losses(run, one, 1e-10);
        expect_near_norms(run, one, 1e-10);
        expect_near_weights(run, one, 1e-10);
      });
      if (node == ranks) continue;
      c.node_size = static_cast<std::size_t>(node);
      on_ranks(c, [&](Communicator& dp) {
        SCOPED_TRACE(text_of(c));
        expect_near_weights(run_zero(dp, c), run_alone(dp, c.options), 1e-10);
      });
    }
  }
}

// With a module for the token after next the head's matrix is used twice. It is the first of its unit's
// parameters that are trained where the final norm is not, and shares a group with the module's.
TEST_F(FrozenTraining, OfAHeadThatIsUsedTwiceIsThatOfOneRank) {
  for (const Patterns& patterns : {Patterns{"norm"}, {"model.norm"}, {"model.norm", "lm_head"}}) {
    ZeroCase c = draw_frozen(2, ZeroStage::kParameters, DType::kF64);
    c.settings.cut = ShardCut::kRows;
    c.options.model.mtp = true;
    c.options.optimizer = "adamw";
    c.options.freeze = patterns;
    on_ranks(c, [&](Communicator& dp) {
      SCOPED_TRACE(text_of(c));
      const ZeroRun run = run_zero(dp, c);
      const RankRun one = run_alone(dp, c.options);
      expect_near_losses(run, one, 1e-10);
      expect_near_norms(run, one, 1e-10);
      expect_near_weights(run, one, 1e-10);
    });
  }
}

/// A rule that changes nothing of some parameters, whose gradients are there.
class Skipping final : public optim::RuleAround {
 public:
  Skipping(optim::Rule rule, std::vector<bool> skipped)
      : RuleAround(std::move(rule)), skipped_(std::move(skipped)) {}

 private:
  void change(std::size_t i, const optim::TensorUpdate& update, const optim::StepConstants&,
              const ByRule& by_rule) const override {
    if (!skipped_[i]) by_rule(update.value, update.grad);
  }

  std::vector<bool> skipped_;
};

// Where nothing is clipped, no gradient of one parameter enters the step of another.
TEST_F(FrozenTraining, IsATrainingInWhichTheirUpdatesAreLeftOut) {
  for (const Patterns& patterns : {kMixed[1], kMixed[3], kUnits[0]}) {
    ZeroCase c = draw_frozen(2, ZeroStage::kParameters, DType::kF64);
    c.settings.cut = ShardCut::kRows;
    c.options.optimizer = "adamw";
    c.options.clip_norm = 0;
    c.options.freeze = patterns;
    c.micro_batch = c.largest_share();
    on_ranks(c, [&](Communicator& dp) {
      SCOPED_TRACE(text_of(c));
      ZeroCase all = c;
      all.options.freeze.clear();
      nn::DenseFactory factory;
      nn::Model model = deferred_model(c, factory);
      train::freeze(model, c.options.freeze);
      std::vector<bool> skipped;
      for (const nn::Parameter* parameter : model.parameters()) {
        skipped.push_back(parameter->is_frozen());
      }
      StageChanges changes;
      changes.rule = std::make_shared<const Skipping>(optim::make_rule("adamw"), skipped);
      changes.exchange = [](const train::StatesScope& scope) {
        return collectives::sum_after_backward(scope.parameters, scope.data);
      };
      const RankRun expected = run_of(zero_setup(dp, all, changes), dp);
      EXPECT_TRUE(run_zero(dp, c).weights == expected.weights);
    });
  }
}

/// Elements of a rank's shard of parameters.
std::size_t shard_of(const std::vector<nn::Parameter*>& parameters, std::size_t ranks,
                     ShardCut cut) {
  std::size_t elements = 0;
  std::size_t rows = 0;
  for (const nn::Parameter* parameter : parameters) {
    elements += parameter->count();
    rows += ceil_div(parameter->shape()[0], ranks) * (parameter->count() / parameter->shape()[0]);
  }
  return cut == ShardCut::kRows ? rows : ceil_div(elements, ranks);
}

// With S ranks a unit's shard is sent to S - 1 others in each gather, and the reduce-scatter sends as much.
// All units but the head are gathered for both passes. All shards are kept and gathered. Gradients, and
// what is reduced, are those of trained parameters.
TEST_F(FrozenTraining, KeepsAndSendsTheClosedFormsOfItsCutAndSoDoesATrainingOfAll) {
  for (const auto& [ranks, freezes] : {std::pair{2, true}, {3, false}, {3, true}, {5, false}}) {
    for (const ShardCut cut : {ShardCut::kFlat, ShardCut::kRows}) {
      ZeroCase c = draw_frozen(ranks, ZeroStage::kParameters, DType::kF32);
      c.settings.cut = cut;
      c.options.optimizer = "adamw";
      c.options.freeze =
          cut == ShardCut::kRows ? kMixed[random.between(0, kMixed.size() - 1)] : kUnits[0];
      if (!freezes) c.options.freeze.clear();
      const auto all = static_cast<std::size_t>(ranks);
      nn::DenseFactory factory;
      nn::Model model = deferred_model(c, factory);
      train::freeze(model, c.options.freeze);
      std::size_t kept = 0;
      std::size_t gathered = 0;
      std::size_t reduced = 0;
      for (const nn::ModelPart& part : model.parts()) {
        const std::size_t shard = shard_of(part.parameters, all, cut);
        const bool once = part.name == "head" || c.settings.reshard == Reshard::kAfterBackward;
        kept += shard;
        gathered += (once ? 1 : 2) * (all - 1) * shard;
        reduced += shard_of(train::trained(part.parameters), all, cut);
      }
      const std::size_t passes = c.options.steps * c.passes();
      on_ranks(
          c,
          [&](Communicator& dp) {
            SCOPED_TRACE(text_of(c));
            const train::TrainResult result = train_zero(dp, c);
            std::size_t updated = 0;
            for (const ParameterGroup& group : groups_of(model, c)) {
              for (const Piece& piece : group.pieces(dp.rank())) {
                const bool is_trained = !group.parameters[piece.tensor]->is_frozen();
                updated += is_trained ? piece.elements.size() : 0;
              }
            }
            const RankSummary& rank = result.ranks.at(static_cast<std::size_t>(dp.rank()));
            EXPECT_EQ(rank.memory.peak(MemoryCategory::kParameters).bytes, 4 * kept);
            EXPECT_EQ(rank.memory.peak(MemoryCategory::kGradients).bytes, 4 * reduced);
            EXPECT_EQ(rank.memory.peak(MemoryCategory::kOptimizer).bytes, 8 * updated);
            EXPECT_EQ(rank.communication[OpKind::kAllGather].sent_bytes, 4 * passes * gathered);
            EXPECT_EQ(rank.communication[OpKind::kReduceScatter].sent_bytes,
                      4 * passes * (all - 1) * reduced);
          },
          in_rank_order(Progress::kOnCall));
    }
  }
}

}  // namespace
}  // namespace ultra::zero
