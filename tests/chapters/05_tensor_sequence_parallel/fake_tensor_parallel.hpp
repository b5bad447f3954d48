#pragma once
/// @file
/// A tensor-parallel factory whose shapes are right and whose numbers are zeros: the first of tp
/// ranks, without the others.

#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "chapters/05_tensor_sequence_parallel/tensor_parallel_layout.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/nn/model_config.hpp"

namespace ultra::tensor_parallel::test {

/// @brief Matrices that keep their input and give zeros.
class FakeProjections : public nn::Projections {
 public:
  /// @param weights  each with its shard.
  /// @param seq      tokens per sequence of the outputs.
  FakeProjections(const nn::BuildContext& context, std::vector<nn::ParameterSpec> weights,
                  std::size_t seq)
      : seq_(seq) {
    for (nn::ParameterSpec& spec : weights) {
      weights_.push_back(std::make_unique<nn::Parameter>(std::move(spec), context.device,
                                                         context.precision, context.seed));
    }
  }

  std::vector<Tensor> forward(const Tensor& x, nn::Saved& saved) override {
    saved.put("input", x);
    std::vector<Tensor> outputs;
    for (const auto& weight : weights_) {
      outputs.push_back(
          Tensor::zeros(x.device(), {x.size(0), seq_, weight->shape()[0]}, x.dtype()));
    }
    return outputs;
  }

  Tensor backward(std::span<const Tensor> /*d_y*/, nn::Saved& saved) override {
    for (const auto& weight : weights_) {
      weight->add_grad([](const Tensor& grad, ops::Write /*write*/) { grad.fill(0.0); });
    }
    const Tensor x = saved.take("input");
    return Tensor::zeros(x.device(), x.shape(), x.dtype());
  }

  std::vector<nn::Parameter*> parameters() override {
    std::vector<nn::Parameter*> all;
    for (const auto& weight : weights_) all.push_back(weight.get());
    return all;
  }

 private:
  std::vector<std::unique_ptr<nn::Parameter>> weights_;
  std::size_t seq_;
};

/// @brief One such matrix.
class FakeLinear : public nn::Layer {
 public:
  /// @param seq  tokens per sequence of the output.
  FakeLinear(const nn::BuildContext& context, nn::ParameterSpec weight, std::size_t seq)
      : maps_(context, {std::move(weight)}, seq) {}

  Tensor forward(const Tensor& x, nn::Saved& saved) override {
    return maps_.forward(x, saved).front();
  }
  Tensor backward(const Tensor& d_y, nn::Saved& saved) override {
    return maps_.backward(std::span<const Tensor>(&d_y, 1), saved);
  }
  std::vector<nn::Parameter*> parameters() override { return maps_.parameters(); }

 private:
  FakeProjections maps_;
};

/// @brief A part of the token table that gives zeros.
class FakeEmbedding : public nn::TokenEmbedding {
 public:
  /// @param seq  tokens per sequence of the output.
  FakeEmbedding(const nn::BuildContext& context, nn::ParameterSpec table, std::size_t seq)
      : table_(std::move(table), context.device, context.precision, context.seed), seq_(seq) {}

  Tensor forward(const Tensor& tokens, nn::Saved& saved) override {
    saved.put("tokens", tokens);
    return Tensor::zeros(tokens.device(), {tokens.size(0), seq_, table_.shape()[1]},
                         table_.dtype());
  }
  void backward(const Tensor& /*d_y*/, nn::Saved& saved) override {
    saved.drop("tokens");
    table_.add_grad([](const Tensor& grad, ops::Write /*write*/) { grad.fill(0.0); });
  }
  std::vector<nn::Parameter*> parameters() override { return {&table_}; }

 private:
  nn::Parameter table_;
  std::size_t seq_;
};

/// @brief Makes parts for rank 0 of a layout. Norms, attention and loss are the dense ones: they
/// take any number of tokens, heads and logits. Sequences have config.max_seq_len tokens.
class FakeTensorParallelFactory : public nn::DenseFactory {
 public:
  /// @brief A factory whose parts are split as the layout says.
  explicit FakeTensorParallelFactory(const TensorParallelLayout& layout) : layout_(layout) {}

  std::unique_ptr<nn::Projections> column_linear(
      const nn::BuildContext& context, const std::vector<nn::LinearSpec>& specs) override {
    std::vector<nn::ParameterSpec> weights;
    for (const nn::LinearSpec& spec : specs) {
      weights.push_back({.name = spec.name,
                         .global_shape = {global_rows(spec), spec.in_features},
                         .shard = {{0, local_rows(context, spec)}, {0, spec.in_features}},
                         .initializer = {}});
    }
    return std::make_unique<FakeProjections>(context, std::move(weights),
                                             context.config.max_seq_len);
  }

  std::unique_ptr<nn::Layer> row_linear(const nn::BuildContext& context,
                                        const nn::LinearSpec& spec) override {
    return std::make_unique<FakeLinear>(
        context,
        nn::ParameterSpec{
            .name = spec.name,
            .global_shape = {spec.out_features, spec.in_features},
            .shard = {{0, spec.out_features}, {0, spec.in_features / layout_.ranks()}},
            .initializer = {}},
        seq_between(context));
  }

  std::unique_ptr<nn::TokenEmbedding> embedding(const nn::BuildContext& context) override {
    const std::size_t rows = layout_.local_vocab_size(context.config.vocab_size);
    return std::make_unique<FakeEmbedding>(
        context,
        nn::ParameterSpec{.name = "model.embed_tokens.weight",
                          .global_shape = {layout_.ranks() * rows, context.config.hidden_size},
                          .shard = {{0, rows}, {0, context.config.hidden_size}},
                          .initializer = {}},
        seq_between(context));
  }

 private:
  static bool ends_with(const nn::LinearSpec& spec, std::string_view ending) {
    return spec.name.ends_with(ending);
  }
  [[nodiscard]] std::size_t seq_between(const nn::BuildContext& context) const {
    return layout_.local_seq_len(context.config.max_seq_len);
  }
  [[nodiscard]] std::size_t local_rows(const nn::BuildContext& context,
                                       const nn::LinearSpec& spec) const {
    if (ends_with(spec, "k_proj.weight") || ends_with(spec, "v_proj.weight")) {
      return layout_.local_kv_heads(context.config.num_kv_heads) * context.config.head_dim();
    }
    return layout_.local_vocab_size(spec.out_features);  // rounds up, for lm_head
  }
  [[nodiscard]] std::size_t global_rows(const nn::LinearSpec& spec) const {
    if (!ends_with(spec, "lm_head.weight")) return spec.out_features;
    return layout_.ranks() * layout_.local_vocab_size(spec.out_features);
  }

  TensorParallelLayout layout_;
};

}  // namespace ultra::tensor_parallel::test
