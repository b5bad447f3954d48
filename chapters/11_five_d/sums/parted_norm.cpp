#include "chapters/11_five_d/sums/parted_norm.hpp"

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

/// The gradients of a norm, group by group.
/// @param d_y, x, d_x     [groups, .., width], and
/// @param reciprocal_rms  [groups, ..].
/// @param parts           [groups, width], written: what each group gives to the weight's gradient.
void gradients_of_groups(const Tensor& d_x, const Tensor& parts, const Tensor& d_y, const Tensor& x,
                         const Tensor& weight, const Tensor& reciprocal_rms) {
  for (std::size_t i = 0; i < x.size(0); ++i) {
    const Range own{i, i + 1};
    d_x.slice(0, own).copy_from(ops::rms_norm_backward(
        d_y.slice(0, own), x.slice(0, own), weight, reciprocal_rms.slice(0, own),
        parts.slice(0, own).view({parts.size(1)}), ops::Write::kOverwrite));
  }
}

}  // namespace

Tensor HeadNorm::gradients(const Tensor& d_y, const Tensor& x, const Tensor& reciprocal_rms,
                           const Tensor& d_weight) const {
  const std::size_t tokens = x.size(0) * x.size(1);
  const std::size_t leaf = ops::SumTree::of_axis(tokens).leaf();
  const std::size_t heads = x.size(2);
  const std::size_t width = x.size(3);
  // A leaf's rows of one head after the other.
  const auto by_head = [&](const Tensor& rows, std::size_t elements) {
    return rows.view({tokens / leaf, leaf, heads, elements}).transpose(1, 2).contiguous();
  };
  const auto groups = [&](const Tensor& rows) {
    return rows.view({tokens / leaf * heads, leaf, rows.size(3)});
  };
  const Tensor turned = by_head(x, width);
  const Tensor d_turned = Tensor::empty(x.device(), turned.shape(), x.dtype());
  const Tensor parts = Tensor::empty(x.device(), {tokens / leaf, heads, width}, d_weight.dtype());
  gradients_of_groups(groups(d_turned), parts.view({tokens / leaf * heads, width}),
                      groups(by_head(d_y, width)), groups(turned), weight().value(),
                      by_head(reciprocal_rms, 1).view({tokens / leaf * heads, leaf}));
  const Tensor leaves = ops::tree_sum(parts, 1).view({tokens / leaf, width});
  ranks_.labeled("gradient of a norm of heads").all_reduce(leaves).wait();
  d_weight.copy_from(ops::tree_sum(leaves, 0).view(d_weight.shape()));
  return d_turned.transpose(1, 2).contiguous().view(x.shape());
}

Tensor PartedNorm::gradients(const Tensor& d_y, const Tensor& x, const Tensor& reciprocal_rms,
                             const Tensor& d_weight) const {
  const Tensor parts = Tensor::empty(x.device(), {x.size(0), d_weight.numel()}, d_weight.dtype());
  const Tensor d_x = Tensor::empty(x.device(), x.shape(), x.dtype());
  gradients_of_groups(d_x, parts, d_y, x, weight().value(), reciprocal_rms);
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
