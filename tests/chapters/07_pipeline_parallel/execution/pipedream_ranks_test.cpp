// PipeDream's asynchronous pipeline against a plain emulation on one rank: every stage's weights
// are kept version by version, and each pass reads the versions that the lists of actions say.
//
// Covers: chapters/07_pipeline_parallel/pipedream/pipedream.hpp

#include <map>

#include "chapters/07_pipeline_parallel/pipedream/pipedream.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/optim/adamw.hpp"
#include "tests/chapters/07_pipeline_parallel/pipeline_run.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::pipeline_parallel {
namespace {

using namespace pipeline_parallel::test;

/// All versions of a stage's weights, from the first on.
using Versions = std::vector<std::vector<Tensor>>;

/// A stage of the emulation: a model whose weights are exchanged before every pass.
struct EmulatedStage {
  std::unique_ptr<nn::Model> model;
  Versions versions = {};
  optim::Optimizer optimizer = optim::Optimizer(optim::adamw());

  void keep_version() {
    versions.emplace_back();
    for (const nn::Parameter* parameter : model->parameters()) {
      versions.back().push_back(parameter->value().clone());
    }
  }
  void load(std::size_t version) {
    for (std::size_t i = 0; i < model->parameters().size(); ++i) {
      model->parameters()[i]->set_value(versions.at(version)[i].clone());
    }
  }
  void update(double learning_rate) {
    load(versions.size() - 1);
    std::vector<optim::TensorUpdate> updates;
    for (nn::Parameter* parameter : model->parameters()) {
      updates.push_back({.value = parameter->value(),
                         .grad = parameter->grad(),
                         .decay = parameter->global_shape().rank() > 1});
    }
    optimizer.step(updates, learning_rate, 1.0);
    model->drop_grads();
    keep_version();
  }
};

/// Trains as PipeDream does, one micro-batch after the other: stage s of p runs micro-batch m
/// forward when it has made as many updates of this step as 1F1B lets it, max(0, m - (p - 1 - s)).
class Emulation {
 public:
  Emulation(const train::TrainOptions& options, const std::vector<std::size_t>& layers,
            std::size_t micro_batches)
      : options_(options),
        micro_batches_(micro_batches),
        text_(data::Dataset::from_file(options.data)) {
    nn::DenseFactory factory;
    for (const nn::StageSpec& part : parts_of_model(layers)) {
      stages_.push_back(
          {.model = std::make_unique<nn::Model>(options.model, Device::cpu(), options.dtype,
                                                options.seed, factory, part)});
      stages_.back().keep_version();
    }
  }

  double step(std::size_t step) {
    const data::Sampler sampler(text_, options_.model.max_seq_len, options_.global_batch,
                                options_.seed);
    const std::size_t size = options_.global_batch / micro_batches_;
    const double tokens = static_cast<double>(options_.global_batch * options_.model.max_seq_len);
    std::vector<std::size_t> first;  // version of each stage at the step's beginning
    for (const EmulatedStage& stage : stages_) first.push_back(stage.versions.size() - 1);
    double loss = 0;
    for (std::size_t m = 0; m < micro_batches_; ++m) {
      const data::Batch batch = sampler.batch(Device::cpu(), step, Range{m * size, (m + 1) * size});
      loss += pass(m, batch, tokens, first, options_.schedule().at(step + 1));
    }
    return loss;
  }

  [[nodiscard]] std::vector<std::vector<double>> weights() {
    std::vector<std::vector<double>> all;
    for (EmulatedStage& stage : stages_) {
      for (const Tensor& value : stage.versions.back()) all.push_back(value.to_vector());
    }
    return all;
  }

 private:
  double pass(std::size_t m, const data::Batch& batch, double tokens,
              const std::vector<std::size_t>& first, double learning_rate) {
    const std::size_t p = stages_.size();
    std::vector<std::unique_ptr<nn::Saved>> saved;
    Tensor x = batch.tokens;
    for (std::size_t s = 0; s < p; ++s) {
      const std::size_t ahead = p - 1 - s;
      stages_[s].load(first[s] + (m > ahead ? m - ahead : 0));
      saved.push_back(std::make_unique<nn::Saved>());
      x = stages_[s].model->forward(x, *saved.back());
    }
    const double loss = stages_.back().model->loss(x, batch.targets, tokens, *saved.back());
    Tensor d_x = stages_.back().model->backward(*saved.back());
    stages_.back().update(learning_rate);
    for (std::size_t s = p - 1; s-- > 0;) {
      const std::size_t ahead = p - 1 - s;
      stages_[s].load(first[s] + (m > ahead ? m - ahead : 0));
      d_x = stages_[s].model->backward(d_x, *saved[s]);
      stages_[s].update(learning_rate);
    }
    return loss;
  }

  train::TrainOptions options_;
  std::size_t micro_batches_;
  data::Dataset text_;
  std::vector<EmulatedStage> stages_;
};

class PipedreamAsync : public PipelineTest {
 protected:
  /// Equal micro-batches, no clipping, whole sequences.
  MeshCase draw_async(std::size_t pp, std::size_t micro_batches) {
    MeshCase c = draw({.pp = pp}, "pipedream-async", DType::kF64);
    c.options.clip_norm = 0;
    c.options.doc_length = 0;
    c.micro_batch = random.between(1, 2);
    c.options.global_batch = micro_batches * c.micro_batch;
    return c;
  }
  static std::vector<std::size_t> layers(const MeshCase& c) {
    const Placement placement = Placement::loop(c.axes.pp);
    return balanced_layers(c.options.model.num_layers, placement, operations_of(c.options.model));
  }
};

TEST_F(PipedreamAsync, EachBackwardPassReadsTheWeightsOfItsForwardPass) {
  for (const auto& [pp, micro_batches] :
       std::vector<std::pair<std::size_t, std::size_t>>{{1, 3}, {2, 4}, {3, 2}, {3, 7}, {4, 4}}) {
    const MeshCase c = draw_async(pp, micro_batches);
    on_mesh(c, [&, stages = pp, m = micro_batches](Communicator& world) {
      const RankRun run = c.run(world);
      Emulation emulation(c.options, layers(c), m);
      for (std::size_t step = 0; step < c.options.steps; ++step) {
        const double loss = emulation.step(step);
        EXPECT_NEAR(run.result.steps[step].loss, loss, 1e-11 * loss) << stages << " stages";
      }
      RankRun expected;
      expected.weights = emulation.weights();
      ultra::test::expect_near_weights(run, expected, 1e-10);
    });
  }
}

}  // namespace
}  // namespace ultra::pipeline_parallel
