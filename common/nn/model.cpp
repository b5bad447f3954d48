#include "common/nn/model.hpp"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/interrupt.hpp"
#include "common/nn/collect.hpp"
#include "common/nn/initialization.hpp"

namespace ultra::nn {

StageSpec StageSpec::whole(const ModelConfig& config) {
  return {.layers = {0, config.num_layers}, .has_embedding = true, .has_head = true};
}

Model::Model(const ModelConfig& config, const Device& device, const Precision& precision,
             std::uint64_t seed, LayerFactory& factory, const StageSpec& stage, Values values)
    : config_(config), device_(device), stage_(stage), hooks_(std::make_shared<PartHooks>()) {
  config_.validate();
  if (stage.layers.begin > stage.layers.end || stage.layers.end > config.num_layers) {
    throw ConfigError(fmt::format("a stage of layers [{}, {}) does not fit a model of {} layers",
                                  stage.layers.begin, stage.layers.end, config.num_layers));
  }
  if (precision.parameters != precision.compute) {
    throw ConfigError(fmt::format("passes in {} need weights in {}, found weights in {}",
                                  to_string(precision.compute), to_string(precision.compute),
                                  to_string(precision.parameters)));
  }
  const BuildContext context{
      config_,
      device,
      precision,
      seed,
      std::make_shared<const ops::RopeTable>(
          device, accumulation_dtype(precision.compute), config_.core_head_dim(),
          config_.max_seq_len, config_.rope_theta, config_.rope_scaling, config_.rotated_dim()),
      factory,
      values};
  if (stage.has_embedding) {
    embedding_ = factory.embedding(context);
    if (config_.tied_embeddings && !stage.has_head) {
      embedding_->parameters().front()->replicate({.group = std::string(kTiedGroup),
                                                   .size = 2,
                                                   .index = 0,
                                                   .gradients = CopyGradients::kPartial});
    }
    add_part("embedding", embedding_->parameters());
  }
  std::vector<std::unique_ptr<Layer>> blocks;
  for (std::size_t layer = stage.layers.begin; layer < stage.layers.end; ++layer) {
    throw_if_interrupted();
    blocks.push_back(
        std::make_unique<HookedBlock>(parts_.size(), factory.block(context, layer), hooks_));
    add_part(fmt::format("block {}", layer), blocks.back()->parameters());
  }
  blocks_ = factory.stack(context, std::move(blocks));
  if (stage.has_head) {
    make_head(context);
    if (config_.tied_embeddings && !embedding_) {
      add_part("final norm", final_norm_->parameters());
      add_part("head", collect_parameters({head_.get(), loss_.get()}));
    } else {
      add_part("head", collect_parameters({final_norm_.get(), head_.get(), loss_.get()}));
    }
  }
}

void Model::make_head(const BuildContext& context) {
  final_norm_ = context.factory.norm(context, {.name = "model.norm.weight"});
  if (config_.tied_embeddings && embedding_) {
    head_ = context.factory.tied_head(context, *embedding_->parameters().front());
  } else {
    // A tied table that stands at the other end starts with the same numbers: it has the same name.
    head_ = context.factory.column_linear(
        context, {{.name = config_.tied_embeddings ? std::string(kEmbeddingName) : "lm_head.weight",
                   .in_features = config_.hidden_size,
                   .out_features = config_.vocab_size,
                   .standard_deviation = kInitialDeviation}});
  }
  loss_ = context.factory.loss(context);
  if (!config_.tied_embeddings || embedding_) return;
  head_->parameters().front()->replicate({.group = std::string(kTiedGroup),
                                          .size = 2,
                                          .index = 1,
                                          .gradients = CopyGradients::kPartial});
}

void Model::add_part(std::string name, const std::vector<Parameter*>& parameters) {
  ModelPart part{.name = std::move(name), .parameters = {}};
  for (Parameter* parameter : parameters) {
    if (++uses_[parameter] > 1) continue;
    part.parameters.push_back(parameter);
    parameters_.push_back(parameter);
  }
  parts_.push_back(std::move(part));
}

std::size_t Model::uses(const Parameter& parameter) const {
  const auto found = uses_.find(&parameter);
  return found == uses_.end() ? 0 : found->second;
}

Model::Model(const ModelConfig& config, const Device& device, const Precision& precision,
             std::uint64_t seed, LayerFactory& factory)
    : Model(config, device, precision, seed, factory, StageSpec::whole(config)) {}

Tensor Model::forward(const Tensor& input, Saved& saved) {
  if (input.size(1) > config_.max_seq_len) {
    throw ShapeError(fmt::format("a sequence of {} tokens is longer than the model's {}",
                                 input.size(1), config_.max_seq_len));
  }
  Tensor x = input;
  if (stage_.has_embedding) {
    hooks_->forward({0, 1}, [&] { x = embedding_->forward(input, saved.child("embedding")); });
  }
  Tensor hidden = blocks_->forward(x, saved.child("blocks"));
  if (!stage_.has_head) return hidden;
  Tensor logits;
  hooks_->forward(head_parts(), [&] {
    const Tensor normed = final_norm_->forward(hidden, saved.child("final_norm"));
    logits = head_->forward(normed, saved.child("head")).front();
  });
  return logits;
}

double Model::loss(const Tensor& logits, const Tensor& targets, double normalizer, Saved& saved) {
  ensure(stage_.has_head, "loss of a stage without head");
  return loss_->forward(logits, targets, normalizer, saved.child("loss"));
}

Tensor Model::backward(Saved& saved) {
  ensure(stage_.has_head, "backward from the loss of a stage without head");
  Tensor d_normed;
  Tensor d_hidden;
  hooks_->backward(head_parts(), [&] {
    {
      const Tensor d_logits = loss_->backward(saved.child("loss"));
      d_normed = head_->backward(std::span<const Tensor>(&d_logits, 1), saved.child("head"));
    }
    d_hidden = final_norm_->backward(d_normed, saved.child("final_norm"));
  });
  return backward(d_hidden, saved);
}

Tensor Model::backward(const Tensor& d_output, Saved& saved) {
  Tensor d_x = blocks_->backward(d_output, saved.child("blocks"));
  if (!stage_.has_embedding) return d_x;
  hooks_->backward({0, 1}, [&] { embedding_->backward(d_x, saved.child("embedding")); });
  return Tensor();
}

const std::vector<Parameter*>& Model::block_parameters(std::size_t layer) const {
  ensure(layer >= stage_.layers.begin && layer < stage_.layers.end, "a block of this stage");
  return parts_[layer - stage_.layers.begin + (stage_.has_embedding ? 1 : 0)].parameters;
}

std::vector<NamedShape> named_shapes(const ModelConfig& config, LayerFactory& factory) {
  const Model whole(config, Device::cpu(), DType::kF32, 0, factory, StageSpec::whole(config),
                    Values::kNever);
  std::vector<NamedShape> named;
  for (const Parameter* parameter : whole.parameters()) {
    named.push_back({.name = parameter->name(), .shape = parameter->global_shape()});
  }
  return named;
}

Range Model::block_parts() const {
  const std::size_t first = stage_.has_embedding ? 1 : 0;
  return {first, first + stage_.layers.size()};
}

void Model::drop_grads() {
  for (Parameter* parameter : parameters_) parameter->drop_grad();
}

void Model::defer_grads_to(DeferredGradients* queue) {
  for (Parameter* parameter : parameters_) parameter->defer_grads_to(queue);
}

std::size_t Model::parameter_count() const {
  std::size_t count = 0;
  for (const Parameter* parameter : parameters_) count += parameter->count();
  return count;
}

}  // namespace ultra::nn
