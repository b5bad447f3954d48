#include "chapters/05_tensor_sequence_parallel/ring_layers.hpp"

#include "chapters/05_tensor_sequence_parallel/ring_matmul.hpp"
#include "common/ops/matmul.hpp"

namespace ultra::tensor_parallel {
namespace {

using ops::as_matrix;
using ops::Transpose;
using ops::Write;

/// The tokens of a chunk.
Range tokens_of(int chunk, std::size_t local_seq) {
  const auto begin = static_cast<std::size_t>(chunk) * local_seq;
  return {begin, begin + local_seq};
}

/// [batch, seq, features] -> some tokens of one sequence, as a matrix; no copy.
Tensor rows_of(const Tensor& x, std::size_t sequence, Range tokens) {
  return as_matrix(x.slice(0, {sequence, sequence + 1}).slice(1, tokens));
}

Tensor empty_like(const Tensor& like, const Shape& shape) {
  return Tensor::empty(like.device(), shape, like.dtype());
}

/// The tokens `to` of a product with a weight, from the tokens `from` of x, sequence by sequence.
void product_of_tokens(const Tensor& y, Range to, const Tensor& x, Range from, const Tensor& weight,
                       Transpose transpose, Write write) {
  for (std::size_t sequence = 0; sequence < x.size(0); ++sequence) {
    ops::matmul_into(rows_of(y, sequence, to), rows_of(x, sequence, from), Transpose::kNo, weight,
                     transpose, write);
  }
}

}  // namespace

std::vector<Tensor> RingColumnParallel::forward(const Tensor& x, nn::Saved& saved) {
  saved.put("input", x);
  const std::size_t local_seq = x.size(1);
  const std::size_t seq = local_seq * static_cast<std::size_t>(tp_.size());
  std::vector<Tensor> outputs;
  for (const auto& weight : weights_) {
    outputs.push_back(empty_like(x, {x.size(0), seq, weight->shape()[0]}));
  }
  gather_in_ring(x, tp_, [&](int chunk, const Tensor& tokens) {
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      product_of_tokens(outputs[i], tokens_of(chunk, local_seq), tokens, {0, local_seq},
                        weights_[i]->value(), Transpose::kYes, Write::kOverwrite);
    }
  });
  return outputs;
}

Tensor RingColumnParallel::backward(std::span<const Tensor> d_y, nn::Saved& saved) {
  const Tensor own = saved.take("input");
  const std::size_t local_seq = own.size(1);
  Pending entering = region_->enter(own);
  const Tensor d_x = reduce_scatter_in_ring(tp_, [&](int chunk) {
    const Tensor part = empty_like(own, own.shape());
    for (std::size_t i = weights_.size(); i-- > 0;) {
      const Write write = i + 1 == weights_.size() ? Write::kOverwrite : Write::kAccumulate;
      product_of_tokens(part, {0, local_seq}, d_y[i], tokens_of(chunk, local_seq),
                        weights_[i]->value(), Transpose::kNo, write);
    }
    return part;
  });
  const Tensor x = entering.wait();
  for (std::size_t i = weights_.size(); i-- > 0;) {
    nn::add_matmul_grad(*weights_[i], d_y[i], x);
  }
  return d_x;
}

Tensor RingRowParallel::forward(const Tensor& x, nn::Saved& saved) {
  saved.put("input", x);
  const std::size_t local_seq = x.size(1) / static_cast<std::size_t>(tp_.size());
  return reduce_scatter_in_ring(tp_, [&](int chunk) {
    const Tensor part = empty_like(x, {x.size(0), local_seq, weight_->shape()[0]});
    product_of_tokens(part, {0, local_seq}, x, tokens_of(chunk, local_seq), weight_->value(),
                      Transpose::kYes, Write::kOverwrite);
    return part;
  });
}

Tensor RingRowParallel::backward(const Tensor& d_y, nn::Saved& saved) {
  const Tensor x = saved.take("input");
  const std::size_t local_seq = d_y.size(1);
  const Tensor d_x = empty_like(x, x.shape());
  const Tensor d_all = empty_like(d_y, {x.size(0), x.size(1), d_y.size(2)});
  gather_in_ring(d_y, tp_, [&](int chunk, const Tensor& tokens) {
    const Range range = tokens_of(chunk, local_seq);
    d_all.slice(1, range).copy_from(tokens);
    product_of_tokens(d_x, range, tokens, {0, local_seq}, weight_->value(), Transpose::kNo,
                      Write::kOverwrite);
  });
  nn::add_matmul_grad(*weight_, d_all, x);
  return d_x;
}

}  // namespace ultra::tensor_parallel
