#include "common/nn/layer_factory.hpp"

#include <utility>

#include "common/nn/layers/attention_layer.hpp"
#include "common/nn/layers/embedding_layer.hpp"
#include "common/nn/layers/feed_forward.hpp"
#include "common/nn/layers/linear.hpp"
#include "common/nn/layers/norm.hpp"
#include "common/nn/transformer_block.hpp"
#include "common/ops/cross_entropy.hpp"

namespace ultra::nn {
namespace {

/// Mean cross-entropy over tokens. Saves "d_logits", which takes the logits' place.
class CrossEntropyLoss : public LossLayer {
 public:
  double forward(const Tensor& logits, const Tensor& targets, double normalizer,
                 Saved& saved) override {
    const Tensor& sum = saved.pass().loss_sum;
    const double z_loss = saved.pass().z_loss;
    double loss = 0;
    if (sum.defined()) {
      ops::cross_entropy_into_gradient(sum, logits, targets, normalizer, ops::Write::kAccumulate,
                                       z_loss);
    } else {
      loss = ops::cross_entropy_into_gradient(logits, targets, normalizer, z_loss);
    }
    saved.put("d_logits", logits);
    return loss;
  }

  Tensor backward(Saved& saved) override { return saved.take("d_logits"); }
};

}  // namespace

std::unique_ptr<Layer> DenseFactory::norm(const BuildContext& context, const NormSpec& spec) {
  return std::make_unique<RmsNorm>(context, spec);
}

std::unique_ptr<Projections> DenseFactory::column_linear(const BuildContext& context,
                                                         const std::vector<LinearSpec>& specs) {
  std::vector<ParameterSpec> weights;
  for (const LinearSpec& spec : specs) weights.push_back(weight_spec(spec));
  return std::make_unique<DenseProjections>(std::move(weights), context.device, context.precision,
                                            context.seed, context.values);
}

std::unique_ptr<Layer> DenseFactory::row_linear(const BuildContext& context,
                                                const LinearSpec& spec) {
  return std::make_unique<DenseLinear>(weight_spec(spec), context.device, context.precision,
                                       context.seed, context.values);
}

std::unique_ptr<Projections> DenseFactory::token_linear(const BuildContext& context,
                                                        const std::vector<LinearSpec>& specs) {
  return DenseFactory::column_linear(context, specs);
}

std::unique_ptr<Layer> DenseFactory::shared_by_heads(const BuildContext& /*context*/) {
  return std::make_unique<Sequential>(std::vector<std::unique_ptr<Layer>>{});
}

std::unique_ptr<AttentionCore> DenseFactory::attention_core(const BuildContext& context) {
  return std::make_unique<CausalAttention>(context);
}

std::unique_ptr<Layer> DenseFactory::feed_forward(const BuildContext& context, std::size_t layer) {
  return std::make_unique<SwigluFeedForward>(context, layer);
}

std::unique_ptr<Layer> DenseFactory::block(const BuildContext& context, std::size_t layer) {
  return std::make_unique<TransformerBlock>(context, layer);
}

std::unique_ptr<Layer> DenseFactory::stack(const BuildContext& /*context*/,
                                           std::vector<std::unique_ptr<Layer>> blocks) {
  return std::make_unique<Sequential>(std::move(blocks));
}

std::unique_ptr<TokenEmbedding> DenseFactory::embedding(const BuildContext& context) {
  return std::make_unique<DenseEmbedding>(context);
}

std::unique_ptr<Projections> DenseFactory::tied_head(const BuildContext&, Parameter& table) {
  return std::make_unique<DenseProjections>(table);
}

std::unique_ptr<LossLayer> DenseFactory::loss(const BuildContext& /*context*/) {
  return std::make_unique<CrossEntropyLoss>();
}

std::unique_ptr<Layer> FactoryWrapper::norm(const BuildContext& context, const NormSpec& spec) {
  return inner_.norm(context, spec);
}

std::unique_ptr<Projections> FactoryWrapper::column_linear(const BuildContext& context,
                                                           const std::vector<LinearSpec>& specs) {
  return inner_.column_linear(context, specs);
}

std::unique_ptr<Layer> FactoryWrapper::row_linear(const BuildContext& context,
                                                  const LinearSpec& spec) {
  return inner_.row_linear(context, spec);
}

std::unique_ptr<Projections> FactoryWrapper::token_linear(const BuildContext& context,
                                                          const std::vector<LinearSpec>& specs) {
  return inner_.token_linear(context, specs);
}

std::unique_ptr<Layer> FactoryWrapper::shared_by_heads(const BuildContext& context) {
  return inner_.shared_by_heads(context);
}

std::unique_ptr<AttentionCore> FactoryWrapper::attention_core(const BuildContext& context) {
  return inner_.attention_core(context);
}

std::unique_ptr<Layer> FactoryWrapper::feed_forward(const BuildContext& context,
                                                    std::size_t layer) {
  return inner_.feed_forward(context, layer);
}

std::unique_ptr<Layer> FactoryWrapper::block(const BuildContext& context, std::size_t layer) {
  return inner_.block(context, layer);
}

std::unique_ptr<Layer> FactoryWrapper::stack(const BuildContext& context,
                                             std::vector<std::unique_ptr<Layer>> blocks) {
  return inner_.stack(context, std::move(blocks));
}

std::unique_ptr<TokenEmbedding> FactoryWrapper::embedding(const BuildContext& context) {
  return inner_.embedding(context);
}

std::unique_ptr<Projections> FactoryWrapper::tied_head(const BuildContext& context,
                                                       Parameter& table) {
  return inner_.tied_head(context, table);
}

std::unique_ptr<LossLayer> FactoryWrapper::loss(const BuildContext& context) {
  return inner_.loss(context);
}

}  // namespace ultra::nn
