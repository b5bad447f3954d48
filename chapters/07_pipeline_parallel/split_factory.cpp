#include <utility>

#include "chapters/07_pipeline_parallel/split_linear.hpp"
#include "common/nn/layers/linear.hpp"

namespace ultra::pipeline_parallel {
namespace {

/// B, and what it leaves for W: that is what stays in memory until then.
Tensor split(std::span<const Tensor> d_y, const Tensor& x,
             const std::vector<nn::Parameter*>& weights) {
  for (std::size_t i = 0; i < weights.size(); ++i) {
    for (const Tensor& each : {d_y[i], x}) weights[i]->keep_for_grad(each);
  }
  return split_backward(d_y, x, weights);
}

class SplitProjections : public nn::Projections {
 public:
  explicit SplitProjections(std::unique_ptr<nn::Projections> maps)
      : maps_(std::move(maps)), weights_(maps_->parameters()) {}

  std::vector<Tensor> forward(const Tensor& x, nn::Saved& saved) override {
    return maps_->forward(x, saved);
  }
  Tensor backward(std::span<const Tensor> d_y, nn::Saved& saved) override {
    return split(d_y, saved.take("input"), weights_);
  }
  std::vector<nn::Parameter*> parameters() override { return weights_; }

 private:
  std::unique_ptr<nn::Projections> maps_;
  std::vector<nn::Parameter*> weights_;
};

class SplitLinear : public nn::Layer {
 public:
  explicit SplitLinear(std::unique_ptr<nn::Layer> map)
      : map_(std::move(map)), weights_(map_->parameters()) {}

  Tensor forward(const Tensor& x, nn::Saved& saved) override { return map_->forward(x, saved); }
  Tensor backward(const Tensor& d_y, nn::Saved& saved) override {
    return split({&d_y, 1}, saved.take("input"), weights_);
  }
  std::vector<nn::Parameter*> parameters() override { return weights_; }

 private:
  std::unique_ptr<nn::Layer> map_;
  std::vector<nn::Parameter*> weights_;
};

}  // namespace

std::unique_ptr<nn::Projections> SplitLinearFactory::column_linear(
    const nn::BuildContext& context, const std::vector<nn::LinearSpec>& specs) {
  return std::make_unique<SplitProjections>(inner().column_linear(context, specs));
}

std::unique_ptr<nn::Layer> SplitLinearFactory::row_linear(const nn::BuildContext& context,
                                                          const nn::LinearSpec& spec) {
  return std::make_unique<SplitLinear>(inner().row_linear(context, spec));
}

}  // namespace ultra::pipeline_parallel
