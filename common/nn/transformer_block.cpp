#include "common/nn/transformer_block.hpp"

#include <fmt/format.h>

#include <utility>

#include "common/nn/collect.hpp"
#include "common/nn/layers/attention_layer.hpp"
#include "common/nn/layers/latent_attention.hpp"
#include "common/ops/elementwise.hpp"

namespace ultra::nn {
namespace {

std::unique_ptr<Layer> make_attention(const BuildContext& context, std::size_t layer) {
  if (context.config.latent.on) return std::make_unique<LatentSelfAttention>(context, layer);
  return std::make_unique<SelfAttention>(context, layer);
}

}  // namespace

TransformerBlock::TransformerBlock(const BuildContext& context, std::size_t layer)
    : attention_norm_(context.factory.norm(
          context, {.name = fmt::format("model.layers.{}.input_layernorm.weight", layer)})),
      attention_(make_attention(context, layer)),
      ffn_norm_(context.factory.norm(
          context,
          {.name = fmt::format("model.layers.{}.post_attention_layernorm.weight", layer)})),
      feed_forward_(context.factory.feed_forward(context, layer)) {}

Tensor TransformerBlock::forward(const Tensor& x, Saved& saved) {
  const Tensor residual = attention_->forward(
      attention_norm_->forward(x, saved.child("attention_norm")), saved.child("attention"));
  ops::add_into(residual, x);
  const Tensor y = feed_forward_->forward(ffn_norm_->forward(residual, saved.child("ffn_norm")),
                                          saved.child("feed_forward"));
  ops::add_into(y, residual);
  return y;
}

Tensor TransformerBlock::backward(const Tensor& d_y, Saved& saved) {
  const Tensor d_residual = ffn_norm_->backward(
      feed_forward_->backward(d_y, saved.child("feed_forward")), saved.child("ffn_norm"));
  ops::add_into(d_residual, d_y);
  const Tensor d_x = attention_norm_->backward(
      attention_->backward(d_residual, saved.child("attention")), saved.child("attention_norm"));
  ops::add_into(d_x, d_residual);
  return d_x;
}

std::vector<Parameter*> TransformerBlock::parameters() {
  return collect_parameters(
      {attention_norm_.get(), attention_.get(), ffn_norm_.get(), feed_forward_.get()});
}

Sequential::Sequential(std::vector<std::unique_ptr<Layer>> layers) : layers_(std::move(layers)) {}

Tensor Sequential::forward(const Tensor& x, Saved& saved) {
  Tensor y = x;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    y = layers_[i]->forward(y, saved.child(std::to_string(i)));
  }
  return y;
}

Tensor Sequential::backward(const Tensor& d_y, Saved& saved) {
  Tensor d_x = d_y;
  for (std::size_t i = layers_.size(); i-- > 0;) {
    d_x = layers_[i]->backward(d_x, saved.child(std::to_string(i)));
  }
  return d_x;
}

std::vector<Parameter*> Sequential::parameters() {
  std::vector<Parameter*> all;
  for (const auto& layer : layers_) {
    const std::vector<Parameter*> own = layer->parameters();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

HookedBlock::HookedBlock(std::size_t part, std::unique_ptr<Layer> block,
                         std::shared_ptr<const PartHooks> hooks)
    : part_(part), block_(std::move(block)), hooks_(std::move(hooks)) {}

Tensor HookedBlock::forward(const Tensor& x, Saved& saved) {
  Tensor y;
  hooks_->forward({part_, part_ + 1}, [&] { y = block_->forward(x, saved); });
  return y;
}

Tensor HookedBlock::backward(const Tensor& d_y, Saved& saved) {
  Tensor d_x;
  hooks_->backward({part_, part_ + 1}, [&] { d_x = block_->backward(d_y, saved); });
  return d_x;
}

std::vector<Parameter*> HookedBlock::parameters() { return block_->parameters(); }

}  // namespace ultra::nn
