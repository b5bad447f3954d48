#include "chapters/11_five_d/sums/parted_norm.hpp"

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "chapters/05_tensor_sequence_parallel/tensor_parallel_factory.hpp"
#include "common/ops/elementwise.hpp"
#include "common/ops/rms_norm.hpp"
#include "common/ops/sums/sum_tree.hpp"
#include "common/ops/sums/tree_sum.hpp"

namespace ultra::five_d {
namespace {

using ops::Transpose;

std::vector<nn::ParameterSpec> specs_of(const std::vector<nn::LinearSpec>& maps) {
  std::vector<nn::ParameterSpec> specs;
  for (const nn::LinearSpec& map : maps) specs.push_back(nn::weight_spec(map));
  return specs;
}

/// What some tokens, and all heads here, give to the gradient of the weight.
/// @param d_y, x           [tokens, heads, width], and
/// @param reciprocal_rms   [tokens, heads]: from the first of the tokens on.
template <class T>
void sum_of_leaf(std::size_t tokens, std::size_t heads, std::size_t width, const T* d_y, const T* x,
                 const T* reciprocal_rms, T* into) {
  const auto join = [](std::vector<T> left, const std::vector<T>& right) {
    std::ranges::transform(left, right, left.begin(), std::plus<>());
    return left;
  };
  ops::NodeCounter<std::vector<T>, decltype(join)> nodes(join);
  for (std::size_t h = 0; h < heads; ++h) {
    std::vector<T> sum(width, T(0));
    for (std::size_t row = h; row < tokens * heads; row += heads) {
      for (std::size_t i = 0; i < width; ++i) {
        sum[i] += d_y[row * width + i] * (x[row * width + i] * reciprocal_rms[row]);
      }
    }
    nodes.add(std::move(sum));
  }
  std::ranges::copy(nodes.take(), into);
}

}  // namespace

Tensor HeadNorm::gradients(const Tensor& d_y, const Tensor& x, const Tensor& reciprocal_rms,
                           const Tensor& d_weight) const {
  Tensor d_x = RmsNorm::gradients(d_y, x, reciprocal_rms, d_weight);
  const std::size_t tokens = x.size(0) * x.size(1);
  const std::size_t heads = x.size(2);
  const std::size_t width = x.size(3);
  const std::size_t leaf = ops::SumTree::of_axis(tokens).leaf();
  const Tensor leaves = Tensor::empty(x.device(), {tokens / leaf, width}, d_weight.dtype());
  const Tensor wide_d_y = cast(d_y, d_weight.dtype());
  const Tensor wide_x = cast(x, d_weight.dtype());
  dispatch_float(d_weight.dtype(), [&]<class T>() {
    for (std::size_t i = 0; i < leaves.size(0); ++i) {
      const std::size_t row = i * leaf * heads;
      sum_of_leaf<T>(leaf, heads, width, wide_d_y.span<T>().data() + row * width,
                     wide_x.span<T>().data() + row * width, reciprocal_rms.span<T>().data() + row,
                     leaves.data<T>() + i * width);
    }
  });
  ranks_.labeled("gradient of a norm of heads").all_reduce(leaves).wait();
  d_weight.copy_from(ops::tree_sum(leaves, 0).view(d_weight.shape()));
  return d_x;
}

Tensor PartedNorm::gradients(const Tensor& d_y, const Tensor& x, const Tensor& reciprocal_rms,
                             const Tensor& d_weight) const {
  const std::size_t sequences = x.size(0);
  const Tensor parts = Tensor::empty(x.device(), {sequences, d_weight.numel()}, d_weight.dtype());
  const auto part = [&](std::size_t i) {
    return parts.slice(0, {i, i + 1}).view(d_weight.shape());
  };
  Tensor d_x = Tensor::empty(x.device(), x.shape(), x.dtype());
  for (std::size_t i = 0; i < sequences; ++i) {
    const Range own{i, i + 1};
    d_x.slice(0, own).copy_from(
        ops::rms_norm_backward(d_y.slice(0, own), x.slice(0, own), weight().value(),
                               reciprocal_rms.slice(0, own), part(i), ops::Write::kOverwrite));
  }
  ranks_.labeled("gradient of a norm").all_reduce(parts).wait();
  d_weight.copy_from(ops::tree_sum(parts, 0).view(d_weight.shape()));
  return d_x;
}

PartedMaps::PartedMaps(const nn::BuildContext& context, const std::vector<nn::LinearSpec>& specs,
                       Communicator ranks)
    : maps_(specs_of(specs), context.device, context.precision, context.seed, context.values),
      ranks_(std::move(ranks)) {}

std::vector<Tensor> PartedMaps::forward(const Tensor& x, nn::Saved& saved) {
  return maps_.forward(x, saved);
}

Tensor PartedMaps::backward(std::span<const Tensor> d_y, nn::Saved& saved) {
  const Tensor x = saved.take("input");
  const Tensor d_x = Tensor::empty(x.device(), x.shape(), x.dtype());
  const std::vector<nn::Parameter*> weights = maps_.parameters();
  for (std::size_t i = weights.size(); i-- > 0;) {
    nn::Parameter& weight = *weights[i];
    ops::matmul_into(ops::as_matrix(d_x), ops::as_matrix(d_y[i]), Transpose::kNo, weight.value(),
                     Transpose::kNo,
                     i + 1 == weights.size() ? ops::Write::kOverwrite : ops::Write::kAccumulate);
    const Tensor parts =
        Tensor::empty(x.device(), {x.size(0), weight.shape()[0], weight.shape()[1]},
                      accumulation_dtype(x.dtype()));
    for (std::size_t s = 0; s < x.size(0); ++s) {
      const Range own{s, s + 1};
      ops::matmul_into(parts.slice(0, own).view(weight.shape()),
                       ops::as_matrix(d_y[i].slice(0, own)), Transpose::kYes,
                       ops::as_matrix(x.slice(0, own)), Transpose::kNo);
    }
    ranks_.labeled("gradient of a map of tokens").all_reduce(parts).wait();
    const Tensor sum = ops::tree_sum(parts, 0).view(weight.shape());
    weight.keep_for_grad(sum);
    weight.add_grad(
        [sum](const Tensor& grad, ops::Write write) { ops::write_or_add(grad, sum, write); });
  }
  return d_x;
}

std::unique_ptr<nn::Layer> PartedNormFactory::norm(const nn::BuildContext& context,
                                                   const nn::NormSpec& spec) {
  std::unique_ptr<nn::Layer> norm;
  if (spec.over == nn::NormOver::kHeads) {
    norm = std::make_unique<HeadNorm>(context, spec, tp_);
  } else if (splits_sequences_) {
    norm = std::make_unique<PartedNorm>(context, spec, tp_);
  } else {
    return inner().norm(context, spec);
  }
  share(norm->parameters());
  return norm;
}

std::unique_ptr<nn::Projections> PartedNormFactory::token_linear(
    const nn::BuildContext& context, const std::vector<nn::LinearSpec>& specs) {
  if (!splits_sequences_) return inner().token_linear(context, specs);
  auto maps = std::make_unique<PartedMaps>(context, specs, tp_);
  share(maps->parameters());
  return maps;
}

void PartedNormFactory::share(const std::vector<nn::Parameter*>& parameters) const {
  for (nn::Parameter* parameter : parameters) {
    parameter->replicate({.group = std::string(tensor_parallel::kTensorGroup),
                          .size = tp_.size(),
                          .index = tp_.rank(),
                          .gradients = nn::CopyGradients::kEqual});
  }
}

}  // namespace ultra::five_d
