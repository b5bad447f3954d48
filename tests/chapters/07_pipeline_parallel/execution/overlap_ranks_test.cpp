// A simulated step takes as long as the executed one, whose messages travel while stages compute.
//
// Covers: chapters/07_pipeline_parallel/execution/pipeline_links.hpp
// Covers: chapters/07_pipeline_parallel/stages/stage_split.hpp

#include <nlohmann/json.hpp>

#include "chapters/03_data_parallel/batch_shares.hpp"
#include "chapters/07_pipeline_parallel/simulate/simulator.hpp"
#include "chapters/07_pipeline_parallel/stages/stage_split.hpp"
#include "common/nn/layer_factory.hpp"
#include "tests/chapters/07_pipeline_parallel/pipeline_run.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/programs/process.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::pipeline_parallel {
namespace {

using namespace pipeline_parallel::test;
using nlohmann::json;
/// Lets every layer sleep in its passes: so long that their length depends on no processor, and that
/// two ranks need no two of them.
class SleepingLayers : public train::Technique {
 public:
  static constexpr std::chrono::milliseconds kForward{8};

  void wrap_layers(train::FactoryStack& factories, const train::Plan&,
                   const train::Setup&) const override {
    factories.push_back(std::make_unique<Factory>(*factories.back()));
  }

 private:
  class Layer : public nn::Layer {
   public:
    explicit Layer(std::unique_ptr<nn::Layer> inner) : inner_(std::move(inner)) {}
    Tensor forward(const Tensor& x, nn::Saved& saved) override {
      std::this_thread::sleep_for(kForward);
      return inner_->forward(x, saved);
    }
    Tensor backward(const Tensor& d_y, nn::Saved& saved) override {
      std::this_thread::sleep_for(2 * kForward);
      return inner_->backward(d_y, saved);
    }
    std::vector<nn::Parameter*> parameters() override { return inner_->parameters(); }

   private:
    std::unique_ptr<nn::Layer> inner_;
  };

  class Factory : public nn::FactoryWrapper {
   public:
    using FactoryWrapper::FactoryWrapper;
    std::unique_ptr<nn::Layer> feed_forward(const nn::BuildContext& context,
                                            std::size_t layer) override {
      return std::make_unique<Layer>(inner().feed_forward(context, layer));
    }
  };
};

class OverlappedPipeline : public PipelineTest {
 protected:
  /// Two stages of two layers.
  MeshCase draw_slow(const std::string& schedule) {
    MeshCase c = draw({.pp = 2}, schedule, DType::kF32);
    c.options.model = {.hidden_size = 16,
                       .num_layers = 4,
                       .num_heads = 4,
                       .num_kv_heads = 4,
                       .ffn_hidden_size = 32,
                       .max_seq_len = 64};
    c.options.model.vocab_size = data::kByteVocabulary;
    c.options.doc_length = 0;
    c.options.steps = 1;
    c.micro_batch = 1;
    c.options.global_batch = 6;
    c.more = "--stage-split 2,2";
    return c;
  }

  /// Trains on a link of that speed.
  static void run(const MeshCase& c, const LinkSpeed& link) {
    RankOptions options = c.setup().rank_options();
    options.link = link;
    quietly([&] {
      run_ranks(
          c.ranks(),
          [&](Communicator& world) {
            train::Setup setup = c.setup();
            setup.techniques.push_back(std::make_unique<SleepingLayers>());
            static_cast<void>(train::train_with(setup, world));
          },
          options);
    });
  }

  static constexpr double kMessageBytes = 16 * 64 * 4;
  ultra::test::TemporaryFolder folder;
};

// The simulator is fed what the passes took in the very run that it is compared with.
TEST_F(OverlappedPipeline, ASimulatedStepTakesAsLongAsTheExecutedOne) {
  if (launched_world_size()) GTEST_SKIP() << "looks at the ranks of one process";
  for (const char* name : {"afab", "1f1b"}) {
    MeshCase c = draw_slow(name);
    c.options.steps = 2;
    const std::string path = folder.path("gantt.json");
    c.more += " --executed-gantt " + path;
    const LinkSpeed link{.latency = 4e-3, .bytes_per_second = kMessageBytes / 4e-3};
    double off = 1;
    for (int attempt = 0; attempt < 10 && off > 0.15; ++attempt) {
      run(c, link);
      const json chart = json::parse(ultra::test::read_file(path));
      CostModel costs;
      for (std::size_t part = 0; part < 2; ++part) {
        const double backward = chart.at("costs").at("BW").at(part);
        costs.parts.push_back({.forward = chart.at("costs").at("F").at(part),
                               .backward_input = backward / 2,
                               .backward_weight = backward / 2});
      }
      costs.link = {.latency = link.latency, .seconds_per_byte = 1 / link.bytes_per_second};
      costs.message_bytes = kMessageBytes;
      double executed = 0;
      for (const json& action : chart.at("actions")) {
        executed = std::max(executed, action.at("end").get<double>());
      }
      const double simulated =
          simulate(make_schedule(parse_schedule_choice(name), 2, 6), costs).seconds();
      off = std::min(off, std::abs(simulated / executed - 1));
    }
    EXPECT_LE(off, 0.15) << name;
  }
}

// A block of this model has more to do than its table, and its head less than two blocks.
TEST_F(OverlappedPipeline, PiecesAreMeasuredAlikeOnAllRanks) {
  const MeshCase c = draw_slow("1f1b");
  on_mesh(c, [&](Communicator& world) {
    const train::Plan plan =
        train::make_plan(c.options, world, MeshShape({axis_of(2)}),
                         {.share = data_parallel::share_of_batch,
                          .cut = data_parallel::cut_share,
                          .schedule = [](std::size_t) { return train::StepSchedule(); }});
    const PieceCosts costs = measure_pieces(c.options, plan);
    EXPECT_GT(costs.block, 0);
    EXPECT_GT(costs.head, 0);
    expect_same_on_all(world, std::vector<double>{costs.embedding, costs.block, costs.head});
  });
}

}  // namespace
}  // namespace ultra::pipeline_parallel
