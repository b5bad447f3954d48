#include "common/nn/layers/embedding_layer.hpp"

#include "common/nn/initialization.hpp"
#include "common/ops/embedding.hpp"

namespace ultra::nn {

ParameterSpec embedding_spec(const ModelConfig& config) {
  return {.name = std::string(kEmbeddingName),
          .global_shape = {config.vocab_size, config.hidden_size},
          .shard = {},
          .initializer = {.standard_deviation = kInitialDeviation}};
}

DenseEmbedding::DenseEmbedding(const BuildContext& context)
    : table_(embedding_spec(context.config), context.device, context.precision, context.seed,
             context.values) {}

Tensor DenseEmbedding::forward(const Tensor& tokens, Saved& saved) {
  saved.put("tokens", tokens);
  return ops::embedding(table_.value(), tokens);
}

void DenseEmbedding::backward(const Tensor& d_y, Saved& saved) {
  table_.keep_for_grad(d_y);
  table_.add_grad([tokens = saved.take("tokens"), d_y](const Tensor& grad, ops::Write write) {
    if (write == ops::Write::kOverwrite) grad.fill(0.0);
    ops::embedding_backward_into(grad, d_y, tokens);
  });
}

std::vector<Parameter*> DenseEmbedding::parameters() { return {&table_}; }

}  // namespace ultra::nn
