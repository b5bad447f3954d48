#include "common/nn/model.hpp"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "common/base/errors.hpp"
#include "common/base/interrupt.hpp"
#include "common/nn/collect.hpp"
#include "common/nn/initialization.hpp"
#include "common/ops/elementwise.hpp"

namespace ultra::nn {
namespace {

/// The two ends hold the token table, and each makes a part of its gradient.
void share_table(Parameter& table, int end) {
  table.replicate({.group = std::string(kTiedGroup),
                   .size = 2,
                   .index = end,
                   .gradients = CopyGradients::kPartial});
}

}  // namespace

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
          values == Values::kNever ? 1 : config_.max_seq_len,  // nothing will be rotated
          config_.rope_theta, config_.rope_scaling, config_.rotated_dim()),
      factory,
      values};
  if (stage.has_embedding) {
    embedding_ = factory.embedding(context);
    if (config_.reads_table_twice() && !stage.has_head) {
      share_table(*embedding_->parameters().front(), 0);
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
    add_head_parts();
    for (Parameter* weight : head_->parameters()) uses_[weight] += config_.head_chunks - 1;
  }
}

void Model::make_head(const BuildContext& context) {
  final_norm_ = context.factory.norm(context, {.name = "model.norm.weight"});
  // A table that stands at the other end, too, starts with the same numbers: it has the same name.
  if (config_.mtp && !embedding_) {
    table_copy_ = context.factory.embedding(context);
    share_table(*table_copy_->parameters().front(), 1);
  }
  if (config_.tied_embeddings && (embedding_ || table_copy_)) {
    head_ = context.factory.tied_head(context, *table().parameters().front());
  } else {
    head_ = context.factory.column_linear(
        context, {{.name = config_.tied_embeddings ? std::string(kEmbeddingName) : "lm_head.weight",
                   .in_features = config_.hidden_size,
                   .out_features = config_.vocab_size,
                   .standard_deviation = kInitialDeviation}});
  }
  loss_ = context.factory.loss(context);
  if (config_.head_chunks > 1) chunked_.emplace(config_.head_chunks, *head_, *loss_);
  if (config_.mtp) {
    mtp_ = std::make_unique<MultiTokenPrediction>(context);
    mtp_parameters_ = mtp_->parameters();
  } else if (config_.tied_embeddings && !embedding_) {
    share_table(*head_->parameters().front(), 1);
  }
}

void Model::add_head_parts() {
  if (config_.tied_embeddings && !embedding_ && !mtp_) {
    add_part("final norm", final_norm_->parameters());
    return add_part("head", collect_parameters({head_.get(), loss_.get()}));
  }
  if (table_copy_) add_part("token table", table_copy_->parameters());
  // With the module, the head is used twice, and so is the table of a stage with both ends.
  add_part("head",
           collect_parameters({final_norm_.get(), head_.get(), loss_.get(), mtp_.get(),
                               mtp_ ? head_.get() : nullptr, mtp_ ? embedding_.get() : nullptr}));
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
  if (!stage_.has_head || chunked_) return hidden;
  Tensor logits;
  hooks_->forward(head_parts(), [&] {
    const Tensor normed = final_norm_->forward(hidden, saved.child("final_norm"));
    logits = head_->forward(normed, saved.child("head")).front();
    if (mtp_ && saved.pass().next) forward_next(normed, saved.child("mtp"));
  });
  return logits;
}

// [region next]
/// The token after next: from what the head reads, and the next token, which the table makes a vector.
void Model::forward_next(const Tensor& normed, Saved& saved) {
  const Tensor embedded = table().forward(saved.pass().next->tokens, saved.child("embedding"));
  const Tensor further = mtp_->forward(normed, embedded, saved.child("module"));
  saved.put("logits", head_->forward(further, saved.child("head")).front());
}

/// Adds to the gradient of what the head reads; returns that of the next tokens' vectors.
Tensor Model::backward_next(const Tensor& d_normed, Saved& saved) {
  const Tensor d_logits = loss_->backward(saved.child("loss"));
  const Tensor d_further = head_->backward({&d_logits, 1}, saved.child("head"));
  const auto [d_hidden, d_embedded] = mtp_->backward(d_further, saved.child("module"));
  ops::add_into(d_normed, d_hidden);
  return d_embedded;
}
// [/region]

double Model::loss(const Tensor& logits, const Tensor& targets, double normalizer, Saved& saved) {
  ensure(stage_.has_head, "loss of a stage without head");
  if (chunked_) {
    double loss = 0;
    hooks_->forward(head_parts(), [&] {
      const Tensor normed = final_norm_->forward(logits, saved.child("final_norm"));
      loss = chunked_->forward(normed, targets, normalizer, saved.child("head"));
    });
    return loss;
  }
  const double loss = loss_->forward(logits, targets, normalizer, saved.child("loss"));
  if (mtp_ && saved.pass().next) {
    const NextTokens& next = *saved.pass().next;
    Saved& own = saved.child("mtp");
    *next.loss += loss_->forward(own.take("logits"), next.targets, normalizer / next.weight,
                                 own.child_with_loss("loss", next.loss_sum));
  }
  return loss;
}

Tensor Model::backward(Saved& saved) {
  ensure(stage_.has_head, "backward from the loss of a stage without head");
  Tensor d_normed;
  Tensor d_hidden;
  const bool predicts_further = mtp_ && saved.pass().next;
  hooks_->backward(head_parts(), [&] {
    if (chunked_) {
      d_normed = chunked_->backward(saved.child("head"));
    } else {
      const Tensor d_logits = loss_->backward(saved.child("loss"));
      d_normed = head_->backward(std::span<const Tensor>(&d_logits, 1), saved.child("head"));
    }
    Tensor d_embedded;
    if (predicts_further) d_embedded = backward_next(d_normed, saved.child("mtp"));
    d_hidden = final_norm_->backward(d_normed, saved.child("final_norm"));
    if (predicts_further) {
      table().backward(d_embedded, saved.child("mtp").child("embedding"));
    }
  });
  return backward(d_hidden, saved);
}

Tensor Model::backward(const Tensor& d_output, Saved& saved) {
  Tensor d_x = blocks_->backward(d_output, saved.child("blocks"));
  if (!stage_.has_embedding) return d_x;
  hooks_->backward({0, 1}, [&] { embedding_->backward(d_x, saved.child("embedding")); });
  return Tensor();
}

bool Model::has_block(std::size_t layer) const {
  if (layer == config_.num_layers) return mtp_ != nullptr;
  return layer >= stage_.layers.begin && layer < stage_.layers.end;
}

const std::vector<Parameter*>& Model::block_parameters(std::size_t layer) const {
  ensure(has_block(layer), "a block of this stage");
  if (layer == config_.num_layers) return mtp_parameters_;
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
