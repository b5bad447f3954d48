#include "chapters/11_five_d/sums/tree_experts.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "common/base/numeric.hpp"
#include "common/ops/elementwise.hpp"

namespace ultra::five_d {
namespace {

using expert_parallel::ExpertLinears;
using ops::Transpose;
using tensor_parallel::Pending;
using tensor_parallel::Region;

/// A region whose ranks all come to the whole sum, and leave with their own tokens.
class WholeRegion : public Region {
 public:
  WholeRegion(std::shared_ptr<Region> inner, Communicator tp,
              tensor_parallel::SequenceParallel sequence_parallel)
      : inner_(std::move(inner)),
        tp_(std::move(tp)),
        splits_(sequence_parallel == tensor_parallel::SequenceParallel::kOn) {}

  Pending enter(const Tensor& x) override { return inner_->enter(x); }
  Pending enter_backward(const Tensor& d_x) override { return Pending(own_part(d_x)); }
  Pending leave(const Tensor& y) override { return Pending(own_part(y)); }
  Pending leave_backward(const Tensor& d_y) override { return inner_->leave_backward(d_y); }

 private:
  [[nodiscard]] Tensor own_part(const Tensor& all) const {
    if (!splits_) return all;
    const std::size_t count = all.size(1) / static_cast<std::size_t>(tp_.size());
    const std::size_t begin = static_cast<std::size_t>(tp_.rank()) * count;
    return all.slice(1, {begin, begin + count}).contiguous();
  }

  std::shared_ptr<Region> inner_;
  Communicator tp_;
  bool splits_;  // sequences
};

/// Rows at their places, between rows of zeros.
Tensor spread(const Tensor& rows, std::span<const std::int32_t> places, std::size_t count) {
  const Tensor all = Tensor::zeros(rows.device(), {count, rows.size(1)}, rows.dtype());
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto place = static_cast<std::size_t>(places[i]);
    all.slice(0, {place, place + 1}).copy_from(rows.slice(0, {i, i + 1}));
  }
  return all;
}

}  // namespace

void expert_gradient_into(const Tensor& grad, const Tensor& d_y, const Tensor& x,
                          const Tensor& places, std::size_t leaf, ops::Write write) {
  const std::span<const std::int32_t> at = places.span<std::int32_t>();
  // A tree that ends behind the last row: further leaves are zeros.
  const auto last = static_cast<std::size_t>(at.back());
  const std::size_t count = leaf * std::bit_ceil(last / leaf + 1);
  ops::matmul_into(grad, spread(d_y, at, count), Transpose::kYes, spread(x, at, count),
                   Transpose::kNo, write);
}

TreeExpertLinears::TreeExpertLinears(std::unique_ptr<ExpertLinears> maps, Communicator tp,
                                     std::size_t leaf)
    : maps_(std::move(maps)),
      weights_(maps_->parameters()),
      tp_(tp.labeled("rows of experts")),
      leaf_(leaf) {}

/// Rows times the weights of a map, whose first is `first`.
Tensor TreeExpertLinears::product(const Tensor& x, std::span<const std::size_t> rows,
                                  std::size_t first, Transpose transpose, bool in_parts) const {
  std::vector<Tensor> values;
  for (std::size_t e = 0; e < rows.size(); ++e) values.push_back(weights_[first + e]->value());
  const Tensor sums =
      Tensor::empty(x.device(), {x.size(0), values[0].size(transpose == Transpose::kYes ? 0 : 1)},
                    in_parts ? accumulation_dtype(x.dtype()) : x.dtype());
  expert_parallel::grouped_matmul_into(sums, x, rows, values, transpose);
  if (!in_parts) return sums;
  tp_.all_reduce(sums).wait();
  return cast(sums, x.dtype());
}

std::vector<Tensor> TreeExpertLinears::forward(const Tensor& x, std::span<const std::size_t> rows,
                                               nn::Saved& saved) {
  const bool in_parts = weights_[0]->shape()[1] < weights_[0]->global_shape()[1];
  std::vector<Tensor> outputs;
  for (std::size_t first = 0; first < weights_.size(); first += rows.size()) {
    outputs.push_back(product(x, rows, first, Transpose::kYes, in_parts));
  }
  saved.put("input", x);
  return outputs;
}

Tensor TreeExpertLinears::backward(std::span<const Tensor> d_y, std::span<const std::size_t> rows,
                                   nn::Saved& saved) {
  const bool in_parts = weights_[0]->shape()[0] < weights_[0]->global_shape()[0];
  const Tensor x = saved.take("input");
  const Tensor places = saved.take("places");
  Tensor d_x;
  for (std::size_t map = d_y.size(); map-- > 0;) {
    const Tensor part = product(d_y[map], rows, map * rows.size(), Transpose::kNo, in_parts);
    if (d_x.defined()) {
      ops::add_into(d_x, part);
    } else {
      d_x = part;
    }
  }
  for (std::size_t map = d_y.size(); map-- > 0;) {
    add_grads(d_y[map], x, places, rows, map * rows.size());
  }
  return d_x;
}

void TreeExpertLinears::add_grads(const Tensor& d_y, const Tensor& x, const Tensor& places,
                                  std::span<const std::size_t> rows, std::size_t first) const {
  std::size_t end = x.size(0);
  for (std::size_t e = rows.size(); e-- > 0;) {
    nn::Parameter& weight = *weights_[first + e];
    const Range own{end - rows[e], end};
    end = own.begin;
    if (own.size() == 0) {
      weight.add_grad([](const Tensor& grad, ops::Write write) {
        if (write == ops::Write::kOverwrite) grad.fill(0.0);
      });
      continue;
    }
    for (const Tensor& kept : {d_y, x}) weight.keep_for_grad(kept);
    weight.add_grad([d_y = d_y.slice(0, own), x = x.slice(0, own), at = places.slice(0, own),
                     leaf = leaf_](const Tensor& grad, ops::Write write) {
      expert_gradient_into(grad, d_y, x, at, leaf, write);
    });
  }
}

TreeExpertsFactory::TreeExpertsFactory(nn::LayerFactory& inner, expert_parallel::MoeScope scope,
                                       const Communicator& tp, std::size_t leaf,
                                       tensor_parallel::SequenceParallel sequence_parallel)
    : FactoryWrapper(inner), scope_(std::move(scope)), tp_(tp), leaf_(leaf) {
  scope_.tells_places = true;
  if (!scope_.region) return;
  scope_.region = std::make_shared<WholeRegion>(scope_.region, tp_, sequence_parallel);
  for (nn::Replication& copies : scope_.router.weight_copies) {
    copies.gradients = nn::CopyGradients::kEqual;
  }
  scope_.router.adds_loss_gradients = true;
}

std::unique_ptr<nn::Layer> TreeExpertsFactory::feed_forward(const nn::BuildContext& context,
                                                            std::size_t layer) {
  auto mixture = std::make_unique<expert_parallel::MoeLayer>(context, layer, scope_);
  mixture->experts().wrap([&](std::unique_ptr<ExpertLinears> maps) {
    return std::make_unique<TreeExpertLinears>(std::move(maps), tp_, leaf_);
  });
  return mixture;
}

}  // namespace ultra::five_d
