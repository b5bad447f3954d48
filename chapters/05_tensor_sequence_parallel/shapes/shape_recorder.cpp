#include "chapters/05_tensor_sequence_parallel/shapes/shape_recorder.hpp"

#include <array>
#include <initializer_list>
#include <span>
#include <string_view>
#include <utility>

#include "common/base/errors.hpp"

namespace ultra::tensor_parallel {
namespace {

using nn::Saved;

// Names -------------------------------------------------------------------------------------------

/// "model.layers.0.self_attn.q_proj.weight" -> "q_proj".
std::string short_name(std::string_view parameter) {
  constexpr std::string_view kEnding = ".weight";
  if (parameter.ends_with(kEnding)) parameter.remove_suffix(kEnding.size());
  return std::string(parameter.substr(parameter.rfind('.') + 1));
}

/// What a projection's output is called: "q_proj" -> "query".
std::string output_name(const std::string& weight) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kOutputs = {
      {{"q_proj", "query"},
       {"k_proj", "key"},
       {"v_proj", "value"},
       {"gate_proj", "gate"},
       {"up_proj", "up"},
       {"lm_head", "logits"}}};
  for (const auto& [name, output] : kOutputs) {
    if (name == weight) return std::string(output);
  }
  return weight + " output";
}

// Writing -----------------------------------------------------------------------------------------

/// Writes the passes of one part down.
class Pen {
 public:
  Pen(std::shared_ptr<std::vector<RecordedStep>> steps, PartClock clock, PartKind kind,
      std::optional<std::size_t> layer, std::string name)
      : steps_(std::move(steps)),
        clock_(std::move(clock)),
        kind_(kind),
        layer_(layer),
        name_(std::move(name)) {}

  [[nodiscard]] std::size_t now() const { return clock_ ? clock_() : 0; }

  void forward(std::size_t begin, nn::Module& part, std::vector<RecordedTensor> inputs,
               std::vector<RecordedTensor> outputs) const {
    std::vector<RecordedWeight> weights;
    for (const nn::Parameter* weight : part.parameters()) {
      weights.push_back({short_name(weight->name()), weight->shape(), weight->global_shape()});
    }
    write(begin, Pass::kForward, std::move(inputs), std::move(outputs), std::move(weights));
  }

  void backward(std::size_t begin, nn::Module& part, std::vector<RecordedTensor> inputs,
                std::vector<RecordedTensor> outputs) const {
    std::vector<RecordedWeight> gradients;
    for (const nn::Parameter* weight : part.parameters()) {
      if (!weight->grad().defined()) continue;  // its work was put off
      gradients.push_back(
          {"d_" + short_name(weight->name()), weight->grad().shape(), weight->global_shape()});
    }
    write(begin, Pass::kBackward, std::move(inputs), std::move(outputs), std::move(gradients));
  }

 private:
  void write(std::size_t begin, Pass pass, std::vector<RecordedTensor> inputs,
             std::vector<RecordedTensor> outputs, std::vector<RecordedWeight> weights) const {
    steps_->push_back({.kind = kind_,
                       .pass = pass,
                       .layer = layer_,
                       .name = name_,
                       .inputs = std::move(inputs),
                       .outputs = std::move(outputs),
                       .weights = std::move(weights),
                       .moments = {begin, now()}});
  }

  std::shared_ptr<std::vector<RecordedStep>> steps_;
  PartClock clock_;
  PartKind kind_;
  std::optional<std::size_t> layer_;
  std::string name_;
};

// The parts ---------------------------------------------------------------------------------------
// Shapes of inputs are taken before the inner part runs: it may drop or overwrite them.

class RecordedLayer : public nn::Layer {
 public:
  RecordedLayer(std::unique_ptr<nn::Layer> inner, Pen pen)
      : inner_(std::move(inner)), pen_(std::move(pen)) {}

  Tensor forward(const Tensor& x, Saved& saved) override {
    const Shape input = x.shape();
    const std::size_t begin = pen_.now();
    Tensor y = inner_->forward(x, saved);
    pen_.forward(begin, *inner_, {{"input", input}}, {{"output", y.shape()}});
    return y;
  }

  Tensor backward(const Tensor& d_y, Saved& saved) override {
    const Shape d_output = d_y.shape();
    const std::size_t begin = pen_.now();
    Tensor d_x = inner_->backward(d_y, saved);
    pen_.backward(begin, *inner_, {{"d_output", d_output}}, {{"d_input", d_x.shape()}});
    return d_x;
  }

  std::vector<nn::Parameter*> parameters() override { return inner_->parameters(); }

 private:
  std::unique_ptr<nn::Layer> inner_;
  Pen pen_;
};

class RecordedProjections : public nn::Projections {
 public:
  RecordedProjections(std::unique_ptr<nn::Projections> inner, Pen pen,
                      std::vector<std::string> outputs)
      : inner_(std::move(inner)), pen_(std::move(pen)), outputs_(std::move(outputs)) {}

  std::vector<Tensor> forward(const Tensor& x, Saved& saved) override {
    const Shape input = x.shape();
    const std::size_t begin = pen_.now();
    std::vector<Tensor> y = inner_->forward(x, saved);
    pen_.forward(begin, *inner_, {{"input", input}}, named(y, ""));
    return y;
  }

  Tensor backward(std::span<const Tensor> d_y, Saved& saved) override {
    std::vector<RecordedTensor> d_outputs = named(d_y, "d_");
    const std::size_t begin = pen_.now();
    Tensor d_x = inner_->backward(d_y, saved);
    pen_.backward(begin, *inner_, std::move(d_outputs), {{"d_input", d_x.shape()}});
    return d_x;
  }

  std::vector<nn::Parameter*> parameters() override { return inner_->parameters(); }

 private:
  std::vector<RecordedTensor> named(std::span<const Tensor> tensors, const char* prefix) const {
    ensure(tensors.size() == outputs_.size(), "one output per projection");
    std::vector<RecordedTensor> result;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      result.push_back({prefix + outputs_[i], tensors[i].shape()});
    }
    return result;
  }

  std::unique_ptr<nn::Projections> inner_;
  Pen pen_;
  std::vector<std::string> outputs_;
};

class RecordedCore : public nn::AttentionCore {
 public:
  RecordedCore(std::unique_ptr<nn::AttentionCore> inner, Pen pen)
      : inner_(std::move(inner)), pen_(std::move(pen)) {}

  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value,
                 Saved& saved) override {
    std::vector<RecordedTensor> inputs = {
        {"query", query.shape()}, {"key", key.shape()}, {"value", value.shape()}};
    const std::size_t begin = pen_.now();
    Tensor output = inner_->forward(query, key, value, saved);
    pen_.forward(begin, *inner_, std::move(inputs), {{"output", output.shape()}});
    return output;
  }

  nn::QkvGradients backward(const Tensor& d_output, Saved& saved) override {
    const Shape shape = d_output.shape();
    const std::size_t begin = pen_.now();
    nn::QkvGradients gradients = inner_->backward(d_output, saved);
    pen_.backward(begin, *inner_, {{"d_output", shape}},
                  {{"d_query", gradients.d_query.shape()},
                   {"d_key", gradients.d_key.shape()},
                   {"d_value", gradients.d_value.shape()}});
    return gradients;
  }

  std::vector<nn::Parameter*> parameters() override { return inner_->parameters(); }

 private:
  std::unique_ptr<nn::AttentionCore> inner_;
  Pen pen_;
};

class RecordedEmbedding : public nn::TokenEmbedding {
 public:
  RecordedEmbedding(std::unique_ptr<nn::TokenEmbedding> inner, Pen pen)
      : inner_(std::move(inner)), pen_(std::move(pen)) {}

  Tensor forward(const Tensor& tokens, Saved& saved) override {
    const Shape shape = tokens.shape();
    const std::size_t begin = pen_.now();
    Tensor y = inner_->forward(tokens, saved);
    pen_.forward(begin, *inner_, {{"tokens", shape}}, {{"output", y.shape()}});
    return y;
  }

  void backward(const Tensor& d_y, Saved& saved) override {
    const Shape d_output = d_y.shape();
    const std::size_t begin = pen_.now();
    inner_->backward(d_y, saved);
    pen_.backward(begin, *inner_, {{"d_output", d_output}}, {});
  }

  std::vector<nn::Parameter*> parameters() override { return inner_->parameters(); }

 private:
  std::unique_ptr<nn::TokenEmbedding> inner_;
  Pen pen_;
};

class RecordedLoss : public nn::LossLayer {
 public:
  RecordedLoss(std::unique_ptr<nn::LossLayer> inner, Pen pen)
      : inner_(std::move(inner)), pen_(std::move(pen)) {}

  double forward(const Tensor& logits, const Tensor& targets, double normalizer,
                 Saved& saved) override {
    std::vector<RecordedTensor> inputs = {{"logits", logits.shape()}, {"targets", targets.shape()}};
    const std::size_t begin = pen_.now();
    const double loss = inner_->forward(logits, targets, normalizer, saved);
    pen_.forward(begin, *inner_, std::move(inputs), {});
    return loss;
  }

  Tensor backward(Saved& saved) override {
    const std::size_t begin = pen_.now();
    Tensor d_logits = inner_->backward(saved);
    pen_.backward(begin, *inner_, {}, {{"d_logits", d_logits.shape()}});
    return d_logits;
  }

  std::vector<nn::Parameter*> parameters() override { return inner_->parameters(); }

 private:
  std::unique_ptr<nn::LossLayer> inner_;
  Pen pen_;
};

}  // namespace

std::unique_ptr<nn::Layer> ShapeRecorder::norm(const nn::BuildContext& context,
                                               const nn::NormSpec& spec) {
  return std::make_unique<RecordedLayer>(
      inner().norm(context, spec),
      Pen(steps_, clock_, PartKind::kNorm, layer_, short_name(spec.name)));
}

std::unique_ptr<nn::Projections> ShapeRecorder::column_linear(
    const nn::BuildContext& context, const std::vector<nn::LinearSpec>& specs) {
  std::string name;
  std::vector<std::string> outputs;
  for (const nn::LinearSpec& spec : specs) {
    const std::string weight = short_name(spec.name);
    name += (name.empty() ? "" : ", ") + weight;
    outputs.push_back(output_name(weight));
  }
  return std::make_unique<RecordedProjections>(
      inner().column_linear(context, specs),
      Pen(steps_, clock_, PartKind::kColumnLinear, layer_, name), std::move(outputs));
}

std::unique_ptr<nn::Layer> ShapeRecorder::row_linear(const nn::BuildContext& context,
                                                     const nn::LinearSpec& spec) {
  return std::make_unique<RecordedLayer>(
      inner().row_linear(context, spec),
      Pen(steps_, clock_, PartKind::kRowLinear, layer_, short_name(spec.name)));
}

std::unique_ptr<nn::AttentionCore> ShapeRecorder::attention_core(const nn::BuildContext& context) {
  return std::make_unique<RecordedCore>(
      inner().attention_core(context),
      Pen(steps_, clock_, PartKind::kAttentionCore, layer_, "attention"));
}

std::unique_ptr<nn::Layer> ShapeRecorder::block(const nn::BuildContext& context,
                                                std::size_t layer) {
  layer_ = layer;
  std::unique_ptr<nn::Layer> made = inner().block(context, layer);
  layer_.reset();
  return made;
}

std::unique_ptr<nn::TokenEmbedding> ShapeRecorder::embedding(const nn::BuildContext& context) {
  return std::make_unique<RecordedEmbedding>(
      inner().embedding(context),
      Pen(steps_, clock_, PartKind::kEmbedding, layer_, "embed_tokens"));
}

std::unique_ptr<nn::LossLayer> ShapeRecorder::loss(const nn::BuildContext& context) {
  return std::make_unique<RecordedLoss>(inner().loss(context),
                                        Pen(steps_, clock_, PartKind::kLoss, layer_, "loss"));
}

}  // namespace ultra::tensor_parallel
