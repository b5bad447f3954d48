// A stage that fails in the middle of a schedule ends all ranks, and says where.
//
// Covers: chapters/07_pipeline_parallel/execution/pipeline_links.hpp

#include "chapters/07_pipeline_parallel/pipeline_parallel.hpp"
#include "common/comm/comm_error.hpp"
#include "common/nn/layer_factory.hpp"
#include "tests/chapters/07_pipeline_parallel/pipeline_run.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::pipeline_parallel {
namespace {

using namespace pipeline_parallel::test;

/// Fails in one pass of one layer.
class FailingLayer : public train::Technique {
 public:
  FailingLayer(std::size_t layer, std::size_t micro_batch, bool backward)
      : layer_(layer), micro_batch_(micro_batch), backward_(backward) {}

  void wrap_layers(train::FactoryStack& factories, const train::Plan&,
                   const train::Setup&) const override {
    factories.push_back(std::make_unique<Factory>(*factories.back(), *this));
  }

 private:
  class Layer : public nn::Layer {
   public:
    Layer(std::unique_ptr<nn::Layer> inner, const FailingLayer& failure)
        : inner_(std::move(inner)), failure_(failure) {}
    Tensor forward(const Tensor& x, nn::Saved& saved) override {
      if (!failure_.backward_) fail(saved);
      return inner_->forward(x, saved);
    }
    Tensor backward(const Tensor& d_y, nn::Saved& saved) override {
      if (failure_.backward_) fail(saved);
      return inner_->backward(d_y, saved);
    }
    std::vector<nn::Parameter*> parameters() override { return inner_->parameters(); }

   private:
    void fail(const nn::Saved& saved) const {
      if (saved.pass().micro_batch == failure_.micro_batch_) throw NumericError("its own words");
    }
    std::unique_ptr<nn::Layer> inner_;
    const FailingLayer& failure_;
  };

  class Factory : public nn::FactoryWrapper {
   public:
    Factory(nn::LayerFactory& inner, const FailingLayer& failure)
        : FactoryWrapper(inner), failure_(failure) {}
    std::unique_ptr<nn::Layer> feed_forward(const nn::BuildContext& context,
                                            std::size_t layer) override {
      auto made = inner().feed_forward(context, layer);
      if (layer != failure_.layer_) return made;
      return std::make_unique<Layer>(std::move(made), failure_);
    }

   private:
    const FailingLayer& failure_;
  };

  std::size_t layer_;
  std::size_t micro_batch_;
  bool backward_;
};

class FailingStages : public PipelineTest {
 protected:
  void SetUp() override {
    if (launched_world_size()) GTEST_SKIP() << "processes end with what one of them says";
  }

  /// Three stages of a layer each.
  MeshCase draw_stages() {
    MeshCase c = draw({.pp = 3}, random.pick({"afab", "1f1b", "zero-bubble-h1"}), DType::kF32);
    c.options.model.num_layers = 3;
    cut(c, 4);
    return c;
  }
};

TEST_F(FailingStages, SayWhichStageAndWhichMicroBatch) {
  for (int trial = 0; trial < 6; ++trial) {
    const MeshCase c = draw_stages();
    const std::size_t stage = random.between(0, 2);
    const std::size_t micro_batch = random.between(0, 3);
    const bool backward = random.pick({true, false});
    const std::string message = ultra::test::message_of<NumericError>([&] {
      on_mesh(c, [&](Communicator& world) {
        train::Setup setup = c.setup();
        setup.techniques.push_back(std::make_unique<FailingLayer>(stage, micro_batch, backward));
        try {
          static_cast<void>(train::train_with(setup, world));
        } catch (const RankFailed& failed) {
          EXPECT_EQ(failed.failed_rank(), static_cast<int>(stage));
          throw;
        }
      });
    });
    EXPECT_THAT(message, HasSubstr("its own words"));
    EXPECT_THAT(message, HasSubstr(fmt::format("stage {} of 3", stage)));
    EXPECT_THAT(message, HasSubstr(fmt::format("{} pass of micro-batch {}",
                                               backward ? "backward" : "forward", micro_batch)));
  }
}

// A stage that never comes: the others say what they wait for, after the time-out.
TEST_F(FailingStages, AStageThatNeverComesIsReported) {
  MeshCase c = draw_stages();
  RankOptions options = c.setup().rank_options();
  options.timeout = std::chrono::seconds(1);
  const auto run = [&](Communicator& world) {
    train::Setup setup = c.setup();
    setup.techniques.push_back(ultra::test::putting(ultra::test::before_each_step(
        [&](const train::StepPlan& plan, const train::ModelScope& scope) {
          if (plan.step == 2 && scope.plan.mesh.along(pipeline_parallel::kAxis).rank() == 1) {
            std::this_thread::sleep_for(std::chrono::seconds(3));
          }
        })));
    static_cast<void>(train::train_with(setup, world));
  };
  const std::string message = ultra::test::message_of<CommTimeout>(
      [&] { quietly([&] { run_ranks(c.ranks(), run, options); }); });
  EXPECT_THAT(message, HasSubstr("rank 1 has not"));
  EXPECT_THAT(message, HasSubstr("pass of micro-batch"));
}

}  // namespace
}  // namespace ultra::pipeline_parallel
