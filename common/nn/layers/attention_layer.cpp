#include "common/nn/layers/attention_layer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/errors.hpp"
#include "common/nn/collect.hpp"
#include "common/nn/initialization.hpp"
#include "common/nn/layer.hpp"
#include "common/nn/layer_factory.hpp"
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

/// The maps with a bias each, y_i = x W_i^T + b_i; the biases start at 0. Saves nothing more.
///
/// A bias is where the rows of its weight are: it takes their shard, the groups that hold them and
/// what each rank has of their gradient. So whoever splits the weights need not know of it.
/// @param maps   as LayerFactory::column_linear() makes them of the specs.
/// @param specs  of the weights, "..weight"; the biases are called "..bias".
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

std::vector<std::int32_t> counted_positions(std::size_t seq) {
  std::vector<std::int32_t> positions(seq);
  std::iota(positions.begin(), positions.end(), 0);
  return positions;
}

/// [batch, seq, features] -> [batch, seq, heads, head_dim]; the head count follows from the width.
Tensor split_heads(const Tensor& x, std::size_t head_dim) {
  return x.view({x.size(0), x.size(1), x.size(2) / head_dim, head_dim});
}

Tensor merge_heads(const Tensor& x) {
  return x.view({x.size(0), x.size(1), x.size(2) * x.size(3)});
}

std::vector<LinearSpec> qkv_specs(const ModelConfig& config, std::size_t layer) {
  const auto spec = [&](const char* which, std::size_t width, std::size_t heads) {
    return LinearSpec{.name = fmt::format("model.layers.{}.self_attn.{}_proj.weight", layer, which),
                      .in_features = config.hidden_size,
                      .out_features = width,
                      .standard_deviation = kInitialDeviation,
                      .output_heads = heads};
  };
  return {spec("q", config.q_hidden_size(), config.num_heads),
          spec("k", config.kv_hidden_size(), config.num_kv_heads),
          spec("v", config.kv_hidden_size(), config.num_kv_heads)};
}

std::unique_ptr<Projections> make_qkv(const BuildContext& context, std::size_t layer) {
  const std::vector<LinearSpec> specs = qkv_specs(context.config, layer);
  std::unique_ptr<Projections> maps = context.factory.column_linear(context, specs);
  if (!context.config.qkv_bias) return maps;
  return with_biases(context, std::move(maps), specs);
}

/// The norm of each head's query or key, "q" or "k"; null in a model without.
std::unique_ptr<Layer> make_head_norm(const BuildContext& context, std::size_t layer,
                                      const char* which) {
  if (!context.config.qk_norm) return nullptr;
  return context.factory.norm(
      context, {.name = fmt::format("model.layers.{}.self_attn.{}_norm.weight", layer, which),
                .over = NormOver::kHeads});
}

}  // namespace

CausalAttention::CausalAttention(const BuildContext& context)
    : rope_(context.rope), window_(context.config.sliding_window) {}

ops::AttentionOptions CausalAttention::options(const Tensor& query, const Pass& pass) const {
  ops::AttentionOptions options{.mask = ops::Mask::kCausal,
                                .scale = 1.0 / std::sqrt(static_cast<double>(query.size(3))),
                                .window = window_};
  if (pass.places) options.first_seen = pass.places->document_begins;
  return options;
}

Tensor CausalAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                Saved& saved) {
  const auto positions = counted_positions(query.size(1));
  ops::rope_into(query, *rope_, positions, ops::Rotation::kForward);
  ops::rope_into(key, *rope_, positions, ops::Rotation::kForward);
  const auto [output, log_sum_exp] =
      ops::attention(query, key, value, options(query, saved.pass()));
  saved.put("query", query);
  saved.put("key", key);
  saved.put("value", value);
  saved.put("output", output);
  saved.put("log_sum_exp", log_sum_exp);
  return output;
}

QkvGradients CausalAttention::backward(const Tensor& d_output, Saved& saved) {
  const Tensor query = saved.take("query");
  const Tensor key = saved.take("key");
  const Tensor value = saved.take("value");
  const auto [d_query, d_key, d_value] =
      ops::attention_backward(d_output, query, key, value, saved.take("output"),
                              saved.take("log_sum_exp"), options(query, saved.pass()));
  const auto positions = counted_positions(query.size(1));
  ops::rope_into(d_query, *rope_, positions, ops::Rotation::kBackward);
  ops::rope_into(d_key, *rope_, positions, ops::Rotation::kBackward);
  return {d_query, d_key, d_value};
}

SelfAttention::SelfAttention(const BuildContext& context, std::size_t layer)
    : head_dim_(context.config.head_dim()),
      qkv_(make_qkv(context, layer)),
      query_norm_(make_head_norm(context, layer, "q")),
      key_norm_(make_head_norm(context, layer, "k")),
      core_(context.factory.attention_core(context)),
      output_(context.factory.row_linear(
          context, {.name = fmt::format("model.layers.{}.self_attn.o_proj.weight", layer),
                    .in_features = context.config.q_hidden_size(),
                    .out_features = context.config.hidden_size,
                    .standard_deviation = residual_deviation(context.config)})) {}

Tensor SelfAttention::forward(const Tensor& x, Saved& saved) {
  const std::vector<Tensor> qkv = qkv_->forward(x, saved.child("qkv"));
  Tensor query = split_heads(qkv[0], head_dim_);
  Tensor key = split_heads(qkv[1], head_dim_);
  if (query_norm_) {
    // The core rotates in place what norms return: nobody makes that again from the norms' inputs.
    query = query_norm_->forward(query, saved.child("query_norm", Saved::Mode::kKeep));
    key = key_norm_->forward(key, saved.child("key_norm", Saved::Mode::kKeep));
  }
  const Tensor attended =
      core_->forward(query, key, split_heads(qkv[2], head_dim_), saved.child("core"));
  return output_->forward(merge_heads(attended), saved.child("output"));
}

Tensor SelfAttention::backward(const Tensor& d_y, Saved& saved) {
  const Tensor d_attended = output_->backward(d_y, saved.child("output"));
  auto [d_query, d_key, d_value] =
      core_->backward(split_heads(d_attended, head_dim_), saved.child("core"));
  if (query_norm_) {
    d_key = key_norm_->backward(d_key, saved.child("key_norm"));
    d_query = query_norm_->backward(d_query, saved.child("query_norm"));
  }
  const std::array<Tensor, 3> d_qkv = {merge_heads(d_query), merge_heads(d_key),
                                       merge_heads(d_value)};
  return qkv_->backward(d_qkv, saved.child("qkv"));
}

std::vector<Parameter*> SelfAttention::parameters() {
  return collect_parameters(
      {qkv_.get(), query_norm_.get(), key_norm_.get(), core_.get(), output_.get()});
}

}  // namespace ultra::nn
