// The chapter's promise, through whole training runs: however experts, sequences, matrices, batches
// and states are dealt out to ranks, the ranks compute what one rank computes.
//
// Covers: chapters/08_expert_parallel/expert_parallel.hpp

#include "chapters/08_expert_parallel/expert_parallel.hpp"
#include "tests/chapters/08_expert_parallel/expert_run.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::expert_parallel {
namespace {

using namespace expert_parallel::test;

class ExpertTraining : public ExpertTest {};

TEST_F(ExpertTraining, ExpertsOnAnyNumberOfRanks) {
  for (const std::size_t ep : {1U, 2U, 3U, 5U, 8U}) {
    expect_equals_one_rank(draw({.dp = ep, .ep = ep}, DType::kF64));
  }
  expect_equals_one_rank(draw({.dp = 4, .ep = 2}, DType::kF64));
  expect_equals_one_rank(draw({.dp = 6, .ep = 3}, DType::kF64));
}

TEST_F(ExpertTraining, MeshesWithEveryStageOfZero) {
  for (const Axes& axes :
       {Axes{.dp = 2, .cp = 2, .ep = 4}, Axes{.dp = 2, .cp = 2, .tp = 2, .ep = 2},
        Axes{.cp = 2, .tp = 4, .ep = 2}, Axes{.dp = 4, .tp = 2, .ep = 2},
        Axes{.cp = 4, .tp = 2, .ep = 4}, Axes{.dp = 4, .cp = 2, .ep = 2},
        Axes{.dp = 2, .cp = 3, .ep = 6}, Axes{.cp = 8, .ep = 4}}) {
    MeshCase c = draw(axes, DType::kF64);
    c.more = fmt::format("--zero {} --overlap {}", random.between(0, 3),
                         random.pick({"none", "bucketed"}));
    expect_equals_one_rank(c);
  }
}

// It has its gradient once, however many ranks have the router.
TEST_F(ExpertTraining, TheBalancingTermIsThatOfOneRank) {
  for (const Axes& axes : {Axes{.dp = 2, .ep = 2}, Axes{.cp = 2}, Axes{.tp = 2}}) {
    MeshCase c = draw(axes, DType::kF64);
    c.model = "--experts 4 --top-k 2 --aux-loss 0.1";
    expect_equals_one_rank(c);
  }
}

// What layers make again are the same bits, and a mixture keeps less for it: norms, and the products of
// routed and of shared experts.
TEST_F(ExpertTraining, SelectiveRecomputationChangesNoBitAndKeepsLess) {
  for (const Axes& axes : {Axes{}, Axes{.dp = 2, .ep = 2}, Axes{.dp = 2, .tp = 2, .ep = 2}}) {
    for (const char* shared : {"", " --shared-experts 2"}) {
      MeshCase c = fixed(axes, 2);
      c.options.model.num_layers = 3;
      c.options.global_batch = 4;
      c.model = std::string("--experts 4 --top-k 2 --expert-ffn 16") + shared;
      MeshCase again = c;
      again.more = "--recompute selective";
      SCOPED_TRACE(again.str());
      on_mesh(c, [&](Communicator& world) {
        const RankRun expected = c.run(world);
        const RankRun found = again.run(world);
        expect_equals(world, found, expected, 0.0);
        if (world.rank() != 0) return;  // it has the ranks' summaries
        const auto peak = [](const RankRun& run) {
          return run.result.ranks.front().memory.peak(MemoryCategory::kActivations).bytes;
        };
        EXPECT_LT(peak(found), peak(expected));
      });
    }
  }
}

// All tokens choose the same experts: one rank computes, the others wait, and nothing hangs.
TEST_F(ExpertTraining, ExtremeImbalance) {
  for (const char* moe :
       {"--experts 8 --top-k 1 --balance none",
        "--experts 8 --top-k 2 --balance bias --bias-rate 50", "--experts 8 --top-k 8",
        "--experts 8 --top-k 1 --capacity-factor 0.01"}) {
    MeshCase c = draw({.dp = random.pick({2U, 4U}), .cp = 2, .ep = 4}, DType::kF64);
    c.options.learning_rate = 0.3;  // routers go wild
    c.model = moe;
    c.more = fmt::format("--zero {}", random.between(0, 3));
    expect_equals_one_rank(c, 1e-8);  // and amplify roundings
  }
}

/// Experts whose gradients are added up over dp and cp like all others: with other experts' ones.
class ExpertsOfTheWrongGroup : public ExpertParallel {
 public:
  void wrap_layers(train::FactoryStack& factories, const train::Plan& plan,
                   const train::Setup& setup) const override {
    const std::size_t ffn = setup.train.model.ffn_hidden_size;
    MoeScope scope = scope_of(options().config(ffn), plan, setup);
    scope.share.data_group = std::string(nn::kDataGroup);
    factories.push_back(
        std::make_unique<ExpertParallelFactory>(*factories.back(), std::move(scope)));
  }
};

TEST_F(ExpertTraining, GradientsOfOtherExpertsAreNoPartOfTheSum) {
  for (const std::size_t ep : {2U, 4U}) {
    MeshCase c = draw({.dp = 4, .ep = ep}, DType::kF64);
    c.options.learning_rate = 0.05;
    c.options.clip_norm = 0;
    on_mesh(c, [&](Communicator& world) {
      const RankRun one = c.run_alone(world);
      const RankRun right = c.run(world);
      MeshCase other = c;
      other.techniques = [] {
        train::Techniques list = pipeline_parallel::test::techniques();
        list.push_back(std::make_unique<ExpertsOfTheWrongGroup>());
        return list;
      };
      const RankRun wrong = other.run(world);
      const auto distance = [&](const RankRun& run) {
        return std::abs(run.result.steps.back().loss / one.result.steps.back().loss - 1);
      };
      EXPECT_LT(distance(right), 1e-10);
      EXPECT_GT(distance(wrong), 1e-8);
    });
  }
}

}  // namespace
}  // namespace ultra::expert_parallel
