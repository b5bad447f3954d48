/// What sums by trees take over those of the default: operations of a training step, and the whole step,
/// on one thread. Each pair is timed in turn, on the same numbers; the median of the ratios counts, since a
/// shared machine's clock changes from second to second.

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "bench/benchmark_model.hpp"
#include "bench/timing.hpp"
#include "common/data/dataset.hpp"
#include "common/nn/model.hpp"
#include "common/ops/attention.hpp"
#include "common/ops/cross_entropy.hpp"
#include "common/ops/elementwise.hpp"
#include "common/ops/embedding.hpp"
#include "common/ops/matmul.hpp"
#include "common/ops/rms_norm.hpp"
#include "common/optim/adamw.hpp"
#include "common/optim/clip.hpp"
#include "common/optim/optimizer.hpp"

namespace {

using namespace ultra;
using ops::Transpose;

constexpr std::size_t kSequences = 4;

/// Does something once.
using Work = std::function<void()>;
/// Makes work of a device that has its operands.
using MakeWork = std::function<Work(const Device& device)>;

/// How many times as long the work takes by trees.
double ratio_of(const MakeWork& make, std::size_t rounds) {
  const Work fast = make(Device::cpu());
  const Work tree = make(Device::create(DeviceKind::kCpu, 0, MatmulLibrary::kTrees));
  const auto seconds = [](const Work& work) {
    const double start = bench::now();
    work();
    return bench::now() - start;
  };
  fast();
  tree();
  std::vector<double> ratios;
  for (std::size_t i = 0; i < rounds; ++i) {
    const double of_fast = seconds(fast);
    ratios.push_back(seconds(tree) / of_fast);
  }
  return bench::median(ratios);
}

/// The same numbers on every device, of a size that keeps exponentials finite.
Tensor numbers(const Device& device, const Shape& shape) {
  Tensor tensor = Tensor::empty(device, shape, DType::kF32);
  std::uint32_t state = 1;
  for (float& x : tensor.span<float>()) {
    state = state * 1664525 + 1013904223;
    x = static_cast<float>(state >> 8) / static_cast<float>(1 << 24) - 0.5F;
  }
  return tensor;
}

Tensor tokens_of(const Device& device, const nn::ModelConfig& model) {
  Tensor tokens = Tensor::empty(device, {kSequences, model.max_seq_len}, DType::kI32);
  std::size_t i = 0;
  for (std::int32_t& token : tokens.span<std::int32_t>()) {
    token = static_cast<std::int32_t>(i * i % model.vocab_size);
    ++i;
  }
  return tokens;
}

struct Row {
  std::string name;
  MakeWork make;
};

std::vector<Row> products_of(const nn::ModelConfig& model) {
  const std::size_t tokens = kSequences * model.max_seq_len;
  const std::size_t hidden = model.hidden_size;
  const std::size_t ffn = model.ffn_hidden_size;
  const auto product = [](std::string name, const Shape& a, Transpose ta, const Shape& b,
                          Transpose tb) {
    return Row{std::move(name), [=](const Device& device) -> Work {
                 return [=, left = numbers(device, a), right = numbers(device, b)] {
                   static_cast<void>(ops::matmul(left, ta, right, tb));
                 };
               }};
  };
  return {
      product("product, forward", {tokens, hidden}, Transpose::kNo, {ffn, hidden}, Transpose::kYes),
      product("product, gradient of the input", {tokens, ffn}, Transpose::kNo, {ffn, hidden},
              Transpose::kNo),
      product("product, gradient of the weight", {tokens, ffn}, Transpose::kYes, {tokens, hidden},
              Transpose::kNo)};
}

std::vector<Row> rows_of(const nn::ModelConfig& model) {
  const Shape hidden{kSequences, model.max_seq_len, model.hidden_size};
  const Shape heads{kSequences, model.max_seq_len, model.num_heads, model.head_dim()};
  const Shape logits{kSequences, model.max_seq_len, model.vocab_size};
  const ops::AttentionOptions causal{.mask = ops::Mask::kCausal, .scale = 0.1};
  return {{"attention, forward",
           [=](const Device& device) -> Work {
             return [=, x = numbers(device, heads)] {
               static_cast<void>(ops::attention(x, x, x, causal));
             };
           }},
          {"attention, backward",
           [=](const Device& device) -> Work {
             const Tensor x = numbers(device, heads);
             const auto result = ops::attention(x, x, x, causal);
             return [=] {
               static_cast<void>(
                   ops::attention_backward(x, x, x, x, result.output, result.log_sum_exp, causal));
             };
           }},
          {"RMSNorm, backward",
           [=](const Device& device) -> Work {
             const Tensor x = numbers(device, hidden);
             const Tensor weight = numbers(device, {hidden[2]});
             const Tensor roots = ops::rms_norm(x, weight, 1e-5).reciprocal_rms;
             const Tensor d_weight = Tensor::empty(device, weight.shape(), DType::kF32);
             return [=] {
               static_cast<void>(
                   ops::rms_norm_backward(x, x, weight, roots, d_weight, ops::Write::kOverwrite));
             };
           }},
          {"token table, backward",
           [=](const Device& device) -> Work {
             const Tensor grad = Tensor::zeros(device, {model.vocab_size, hidden[2]}, DType::kF32);
             return [=, d = numbers(device, hidden), tokens = tokens_of(device, model)] {
               ops::embedding_backward_into(grad, d, tokens);
             };
           }},
          {"cross-entropy",
           [=](const Device& device) -> Work {
             const Tensor kept = numbers(device, logits);
             const Tensor work = kept.clone();
             return [=, targets = tokens_of(device, model)] {
               work.copy_from(kept);
               static_cast<void>(ops::cross_entropy_into_gradient(work, targets, 1024.0));
             };
           }},
          {"squares of a gradient", [=](const Device& device) -> Work {
             return [x = numbers(device, hidden)] { static_cast<void>(ops::sum_of_squares(x)); };
           }}};
}

/// Forward, backward, clipping and AdamW, of four sequences in one micro-batch.
MakeWork whole_step(const nn::ModelConfig& config) {
  return [config](const Device& device) -> Work {
    auto factory = std::make_shared<nn::DenseFactory>();
    auto model = std::make_shared<nn::Model>(config, device, DType::kF32, 1, *factory);
    auto optimizer = std::make_shared<optim::Optimizer>(optim::adamw());
    const data::Sampler sampler(bench::benchmark_text(), config.max_seq_len, kSequences, 1);
    const data::Batch batch = sampler.batch(device, 0, {0, kSequences});
    return [=] {
      nn::Saved saved;
      const Tensor logits = model->forward(batch.tokens, saved);
      static_cast<void>(model->loss(logits, batch.targets, 1024.0, saved));
      model->backward(saved);
      std::vector<Tensor> grads;
      std::vector<optim::TensorUpdate> updates;
      for (nn::Parameter* p : model->parameters()) {
        grads.push_back(p->grad());
        updates.push_back({p->value(), p->grad(), p->value().shape().rank() > 1});
      }
      optimizer->step(updates, 1e-4, optim::clip_coefficient(optim::global_norm(grads), 1.0));
      model->drop_grads();
      static_cast<void>(factory);
    };
  };
}

}  // namespace

int main() {
  const nn::ModelConfig model = bench::benchmark_model(384);
  fmt::print("| hidden 384, {} tokens | times as long by trees |\n|---|---|\n",
             kSequences * model.max_seq_len);
  std::vector<Row> all = products_of(model);
  for (Row& row : rows_of(model)) all.push_back(std::move(row));
  for (const Row& row : all) fmt::print("| {} | {:.2f} |\n", row.name, ratio_of(row.make, 15));
  fmt::print("| a whole step | {:.2f} |\n", ratio_of(whole_step(model), 9));
  return 0;
}
