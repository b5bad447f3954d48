#include "common/nn/layers/multi_token_prediction.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "common/nn/collect.hpp"
#include "common/nn/initialization.hpp"
#include "common/nn/layers/side_by_side.hpp"

namespace ultra::nn {
namespace {

std::string name_in_module(const BuildContext& context, const char* which) {
  return fmt::format("model.layers.{}.{}.weight", context.config.num_layers, which);
}

std::unique_ptr<Layer> module_norm(const BuildContext& context, const char* which) {
  return context.factory.norm(context, {.name = name_in_module(context, which)});
}

/// Of each token by itself.
std::unique_ptr<Projections> module_projection(const BuildContext& context) {
  const std::size_t hidden = context.config.hidden_size;
  return context.factory.token_linear(context, {{.name = name_in_module(context, "eh_proj"),
                                                 .in_features = 2 * hidden,
                                                 .out_features = hidden,
                                                 .standard_deviation = kInitialDeviation}});
}

/// As a stack of its own: what is made of the others' stack, recomputation for example, is made of it.
std::unique_ptr<Layer> module_block(const BuildContext& context) {
  std::vector<std::unique_ptr<Layer>> blocks;
  blocks.push_back(context.factory.block(context, context.config.num_layers));
  return context.factory.stack(context, std::move(blocks));
}

}  // namespace

MultiTokenPrediction::MultiTokenPrediction(const BuildContext& context)
    : embedding_norm_(module_norm(context, "enorm")),
      hidden_norm_(module_norm(context, "hnorm")),
      projection_(module_projection(context)),
      block_(module_block(context)),
      norm_(module_norm(context, "shared_head.norm")) {}

// [region module]
Tensor MultiTokenPrediction::forward(const Tensor& hidden, const Tensor& embedded, Saved& saved) {
  const Tensor e = embedding_norm_->forward(embedded, saved.child("enorm"));
  const Tensor h = hidden_norm_->forward(hidden, saved.child("hnorm"));
  const Tensor x = projection_->forward(beside(e, h), saved.child("eh_proj")).front();
  return norm_->forward(block_->forward(x, saved.child("block")), saved.child("norm"));
}

MultiTokenPrediction::Gradients MultiTokenPrediction::backward(const Tensor& d_y, Saved& saved) {
  const Tensor d_block = norm_->backward(d_y, saved.child("norm"));
  const Tensor d_x = block_->backward(d_block, saved.child("block"));
  const Tensor d_both = projection_->backward({&d_x, 1}, saved.child("eh_proj"));
  const std::size_t width = d_both.size(-1);
  // The last first: gradients are made in the reverse of the forward order, all over the model.
  const Tensor d_h = part_of(d_both, {width / 2, width});
  const Tensor d_hidden = hidden_norm_->backward(d_h, saved.child("hnorm"));
  const Tensor d_e = part_of(d_both, {0, width / 2});
  return {.d_hidden = d_hidden, .d_embedded = embedding_norm_->backward(d_e, saved.child("enorm"))};
}
// [/region]

std::vector<Parameter*> MultiTokenPrediction::parameters() {
  return collect_parameters(
      {embedding_norm_.get(), hidden_norm_.get(), projection_.get(), block_.get(), norm_.get()});
}

}  // namespace ultra::nn
