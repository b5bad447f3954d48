#include "common/nn/layers/biased_projections.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/errors.hpp"
#include "common/ops/matmul.hpp"

namespace ultra::nn {
namespace {

constexpr std::string_view kWeight = ".weight";

std::unique_ptr<Parameter> bias_of(const Parameter& weight, const BuildContext& context) {
  ensure(weight.name().ends_with(kWeight), "a weight's name");
  const std::string stem = weight.name().substr(0, weight.name().size() - kWeight.size());
  const Range rows = weight.shard().front();
  auto bias =
      std::make_unique<Parameter>(ParameterSpec{.name = stem + ".bias",
                                                .global_shape = {weight.global_shape()[0]},
                                                .shard = {rows},
                                                .initializer = {.constant = 0.0},
                                                .padding = weight.shape()[0] - rows.size()},
                                  context.device, context.precision, context.seed, context.values);
  for (const Replication& replication : weight.replications()) bias->replicate(replication);
  bias->set_data_group(weight.data_group());
  return bias;
}

class BiasedProjections : public Projections {
 public:
  BiasedProjections(std::unique_ptr<Projections> maps,
                    std::vector<std::unique_ptr<Parameter>> biases)
      : maps_(std::move(maps)), biases_(std::move(biases)) {}

  std::vector<Tensor> forward(const Tensor& x, Saved& saved) override {
    std::vector<Tensor> outputs = maps_->forward(x, saved);
    for (std::size_t i = 0; i < biases_.size(); ++i) {
      ops::add_bias(outputs[i], biases_[i]->value());
    }
    return outputs;
  }

  Tensor backward(std::span<const Tensor> d_y, Saved& saved) override {
    for (std::size_t i = biases_.size(); i-- > 0;) {
      biases_[i]->keep_for_grad(d_y[i]);
      biases_[i]->add_grad([d = d_y[i]](const Tensor& grad, ops::Write write) {
        ops::sum_rows_into(grad, d, write);
      });
    }
    return maps_->backward(d_y, saved);
  }

  std::vector<Parameter*> parameters() override {
    std::vector<Parameter*> all = maps_->parameters();
    for (const auto& bias : biases_) all.push_back(bias.get());
    return all;
  }

 private:
  std::unique_ptr<Projections> maps_;
  std::vector<std::unique_ptr<Parameter>> biases_;
};

}  // namespace

std::unique_ptr<Projections> with_biases(const BuildContext& context,
                                         std::unique_ptr<Projections> maps,
                                         const std::vector<LinearSpec>& specs) {
  const std::vector<Parameter*> parameters = maps->parameters();
  std::vector<std::unique_ptr<Parameter>> biases;
  for (const LinearSpec& spec : specs) {
    const auto weight = std::ranges::find(parameters, spec.name, &Parameter::name);
    ensure(weight != parameters.end(), "the weight of each map");
    biases.push_back(bias_of(**weight, context));
  }
  return std::make_unique<BiasedProjections>(std::move(maps), std::move(biases));
}

}  // namespace ultra::nn
