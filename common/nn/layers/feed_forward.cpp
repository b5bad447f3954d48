#include "common/nn/layers/feed_forward.hpp"

#include <fmt/format.h>

#include <array>

#include "common/nn/collect.hpp"
#include "common/nn/initialization.hpp"
#include "common/ops/swiglu.hpp"

namespace ultra::nn {
namespace {

LinearSpec spec(const std::string& prefix, const char* which, std::size_t in, std::size_t out,
                double deviation) {
  return {.name = fmt::format("{}.{}_proj.weight", prefix, which),
          .in_features = in,
          .out_features = out,
          .standard_deviation = deviation};
}

}  // namespace

SwigluFeedForward::SwigluFeedForward(const BuildContext& context, std::size_t layer)
    : SwigluFeedForward(context, fmt::format("model.layers.{}.mlp", layer),
                        context.config.ffn_hidden_size) {}

SwigluFeedForward::SwigluFeedForward(const BuildContext& context, const std::string& prefix,
                                     std::size_t ffn) {
  const std::size_t hidden = context.config.hidden_size;
  gate_up_ =
      context.factory.column_linear(context, {spec(prefix, "gate", hidden, ffn, kInitialDeviation),
                                              spec(prefix, "up", hidden, ffn, kInitialDeviation)});
  down_ = context.factory.row_linear(
      context, spec(prefix, "down", ffn, hidden, residual_deviation(context.config)));
}

Tensor SwigluFeedForward::forward(const Tensor& x, Saved& saved) {
  const std::vector<Tensor> gate_up = gate_up_->forward(x, saved.child("gate_up"));
  saved.put("gate", gate_up[0]);
  saved.put("up", gate_up[1]);
  const Tensor product = ops::swiglu(gate_up[0], gate_up[1]);
  saved.remakeable(product, [gate_up] { return ops::swiglu(gate_up[0], gate_up[1]); });
  return down_->forward(product, saved.child("down"));
}

Tensor SwigluFeedForward::backward(const Tensor& d_y, Saved& saved) {
  Tensor d_product = down_->backward(d_y, saved.child("down"));
  const auto [d_gate, d_up] = ops::swiglu_backward(d_product, saved.take("gate"), saved.take("up"));
  d_product = Tensor();
  const std::array<Tensor, 2> d_gate_up = {d_gate, d_up};
  return gate_up_->backward(d_gate_up, saved.child("gate_up"));
}

std::vector<Parameter*> SwigluFeedForward::parameters() {
  return collect_parameters({gate_up_.get(), down_.get()});
}

}  // namespace ultra::nn
