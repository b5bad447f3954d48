#include "tests/support/training/model.hpp"

#include <algorithm>

#include "tests/support/compare.hpp"

namespace ultra::test {

nn::ModelConfig random_model_config(Random& random) {
  nn::ModelConfig config;
  const std::size_t kv_heads = random.between(1, 3);
  config.num_kv_heads = kv_heads;
  config.num_heads = kv_heads * random.between(1, 3);
  config.hidden_size = config.num_heads * 2 * random.between(1, 3);
  config.num_layers = random.between(1, 3);
  config.ffn_hidden_size = random.between(1, 19);
  config.vocab_size = random.between(2, 29);
  config.max_seq_len = random.between(1, 13);
  config.rope_theta = random.pick({100.0, 10000.0});
  return config;
}

MicroBatch random_micro_batch(Random& random, const Device& device, const nn::ModelConfig& config,
                              std::size_t batch, std::size_t seq) {
  return {random.tokens(device, {batch, seq}, config.vocab_size),
          random.tokens(device, {batch, seq}, config.vocab_size)};
}

void randomize_weights(Random& random, const nn::Model& model) {
  for (nn::Parameter* parameter : model.parameters()) random.fill(parameter->value(), 0.4);
}

double run_step(nn::Model& model, const MicroBatch& batch, double normalizer) {
  nn::Saved saved;
  const Tensor logits = model.forward(batch.tokens, saved);
  const double loss = model.loss(logits, batch.targets, normalizer, saved);
  model.backward(saved);
  return loss;
}

std::vector<Tensor> gradients_of(const nn::Model& model) {
  std::vector<Tensor> gradients;
  for (const nn::Parameter* parameter : model.parameters()) {
    gradients.push_back(parameter->grad().clone());
  }
  return gradients;
}

double largest_gradient(const nn::Model& model) {
  double largest = 0.0;
  for (const nn::Parameter* parameter : model.parameters()) {
    largest = std::max(largest, largest_magnitude(parameter->grad().to_vector()));
  }
  return largest;
}

double model_roundings(const nn::ModelConfig& config, std::size_t seq) {
  const double hidden = count_of(config.hidden_size);
  const double attention = count_of(config.head_dim() + seq) + 2 * hidden;
  const double feed_forward = hidden + count_of(config.ffn_hidden_size);
  const double norms = 2 * hidden;
  return count_of(config.num_layers) * (attention + feed_forward + norms) + 2 * hidden +
         count_of(config.vocab_size);
}

}  // namespace ultra::test
