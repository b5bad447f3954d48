#include <utility>
#include <vector>

#include "chapters/06_context_parallel/attention_methods/sequence_attention.hpp"
#include "chapters/06_context_parallel/sequence_chunks.hpp"
#include "common/base/errors.hpp"

namespace ultra::context_parallel {
namespace {

constexpr MemoryCategory kTravels = MemoryCategory::kCommunication;

/// Part r of an array [N, ...]: a view without the first dimension.
Tensor part_of(const Tensor& all, std::size_t rank) {
  return all.slice(0, {rank, rank + 1}).view(Shape(all.shape().dims().subspan(1)));
}

/// The heads that rank r works with, of [batch, seq, heads, head_dim]: a view.
Tensor heads_of(const Tensor& x, std::size_t rank, std::size_t ranks) {
  const std::size_t heads = x.size(2) / ranks;
  return x.slice(2, {rank * heads, (rank + 1) * heads});
}

/// An exchange of [N, batch, own seq, heads / N, head_dim]: part j goes to rank j.
class Exchange {
 public:
  explicit Exchange(Tensor send) : send_(std::move(send)) {}

  void start(const SequenceGroup& group, const char* label) {
    receive_ = Tensor::empty(send_.device(), send_.shape(), send_.dtype(), kTravels);
    work_ = group.ranks.labeled(label).all_to_all(send_, receive_);
  }
  /// One part per rank.
  [[nodiscard]] std::vector<Tensor> parts() {
    work_.wait();  // or parts that have not arrived would be read
    std::vector<Tensor> all;
    for (std::size_t rank = 0; rank < receive_.size(0); ++rank) {
      all.push_back(part_of(receive_, rank));
    }
    return all;
  }

 private:
  Tensor send_;
  Tensor receive_;
  Work work_;
};

/// Tokens for heads: on its way from [batch, own seq, heads, head_dim] to [batch, all seq, own heads,
/// head_dim].
Exchange send_heads(const Tensor& x, const SequenceGroup& group, const char* label) {
  const std::size_t ranks = group.chunks.size();
  ensure(x.size(2) % ranks == 0, "heads that divide");
  const Tensor send = Tensor::empty(
      x.device(), {ranks, x.size(0), x.size(1), x.size(2) / ranks, x.size(3)}, x.dtype(), kTravels);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    part_of(send, rank).copy_from(heads_of(x, rank, ranks));
  }
  Exchange exchange(send);
  exchange.start(group, label);
  return exchange;
}

/// Heads for tokens: on its way back.
Exchange send_tokens(const Tensor& x, const SequenceGroup& group, const char* label) {
  const std::vector<Tensor> parts = split_sequence(x, group.chunks);
  const std::size_t ranks = parts.size();
  const Shape& shape = parts[0].shape();
  const Tensor send = Tensor::empty(x.device(), {ranks, shape[0], shape[1], shape[2], shape[3]},
                                    x.dtype(), kTravels);
  for (std::size_t rank = 0; rank < ranks; ++rank) part_of(send, rank).copy_from(parts[rank]);
  Exchange exchange(send);
  exchange.start(group, label);
  return exchange;
}

Tensor all_tokens(Exchange exchange, const SequenceGroup& group) {
  return join_sequence(exchange.parts(), group.chunks);
}

Tensor all_heads(Exchange exchange) {
  const std::vector<Tensor> parts = exchange.parts();
  const Shape shape = parts[0].shape().with(2, parts.size() * parts[0].size(2));
  Tensor x = Tensor::empty(parts[0].device(), shape, parts[0].dtype());
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    heads_of(x, rank, parts.size()).copy_from(parts[rank]);
  }
  return x;
}

}  // namespace

// [region scattered]
Tensor HeadScatteredAttention::forward(const nn::Qkv& in, const AttentionScope& scope,
                                       nn::Saved& saved) {
  Exchange query = send_heads(in.query, heads_, "query");
  Exchange key = send_heads(in.key, heads_, "key");
  Exchange value = send_heads(in.value, heads_, "value");
  const nn::Qkv own_heads{all_tokens(std::move(query), heads_), all_tokens(std::move(key), heads_),
                          all_tokens(std::move(value), heads_)};
  const Tensor output = inner_->forward(own_heads, scope, saved);
  return all_heads(send_tokens(output, heads_, "output"));
}

nn::QkvGradients HeadScatteredAttention::backward(const Tensor& d_output,
                                                  const AttentionScope& scope, nn::Saved& saved) {
  const Tensor d_own_heads =
      all_tokens(send_heads(d_output, heads_, "gradient of the output"), heads_);
  const auto [d_query, d_key, d_value] = inner_->backward(d_own_heads, scope, saved);
  const DType dtype = d_output.dtype();
  Exchange query = send_tokens(cast(d_query, dtype), heads_, "gradient of the query");
  Exchange key = send_tokens(cast(d_key, dtype), heads_, "gradient of the key");
  Exchange value = send_tokens(cast(d_value, dtype), heads_, "gradient of the value");
  return {all_heads(std::move(query)), all_heads(std::move(key)), all_heads(std::move(value))};
}
// [/region]

}  // namespace ultra::context_parallel
