#include "chapters/08_expert_parallel/moe_layer.hpp"

#include <algorithm>
#include <cstdint>

#include "chapters/08_expert_parallel/combine_weights.hpp"
#include "chapters/08_expert_parallel/device/expert_rows.hpp"
#include "chapters/08_expert_parallel/dispatch_counts.hpp"
#include "common/nn/collect.hpp"
#include "common/nn/layers/feed_forward.hpp"
#include "common/ops/elementwise.hpp"
#include "common/ops/matmul.hpp"

namespace ultra::expert_parallel {
namespace {

using ops::as_matrix;

/// All experts, where only their names are asked for.
LocalExperts share_for(const nn::BuildContext& context, const MoeScope& scope) {
  LocalExperts share = scope.share;
  if (context.values == nn::Values::kNever) share.experts = {0, scope.config.num_experts};
  return share;
}

std::unique_ptr<nn::Layer> make_shared_experts(const nn::BuildContext& context, std::size_t layer,
                                               const MoeConfig& config) {
  if (config.shared_experts == 0) return nullptr;
  return std::make_unique<nn::SwigluFeedForward>(
      context, moe_prefix(context.config, layer) + ".shared_experts",
      config.shared_experts * config.expert_ffn);
}

/// Keeps what other ranks have told.
void save_counts(const DispatchCounts& counts, nn::Saved& saved) {
  const std::size_t ranks = counts.send_rows.size();
  const Tensor received =
      Tensor::empty(Device::cpu(), {ranks, counts.local_experts()}, DType::kI32);
  std::ranges::transform(counts.received, received.data<std::int32_t>(),
                         [](std::size_t rows) { return static_cast<std::int32_t>(rows); });
  saved.put("received", received);
}

/// The same counts for the way back: rows travel as they did.
DispatchCounts counts_again(const ExpertOrder& order, nn::Saved& saved) {
  const Tensor received = saved.take("received");  // [ranks, local experts]
  const std::span<const std::int32_t> told = received.span<std::int32_t>();
  return counts_of(order.rows_per_expert, {told.begin(), told.end()}, received.size(0));
}

/// The rows of tokens of any type; those of two bytes are weighted in f32 and rounded once.
Tensor rows_of_tokens(const Tensor& x, const Tensor& weights, const ExpertOrder& order) {
  const auto permute = is_on_device(x) ? to_expert_order_on_device : to_expert_order;
  return cast(permute(cast(x, accumulation_dtype(x.dtype())), weights, order), x.dtype());
}

/// The tokens' sums of their rows, likewise.
Tensor tokens_of_rows(const Tensor& rows, const Tensor& weights, const ExpertOrder& order) {
  const auto permute = is_on_device(rows) ? from_expert_order_on_device : from_expert_order;
  return cast(permute(cast(rows, accumulation_dtype(rows.dtype())), weights, order), rows.dtype());
}

/// combine_weights_backward(), of numbers on the host.
Tensor affinity_gradients(const Tensor& d_rows, const Tensor& outputs, const ExpertOrder& order,
                          const Decision& decision) {
  const auto backward =
      is_on_device(d_rows) ? combine_weights_backward_on_device : combine_weights_backward;
  const DType dtype = decision.affinities.dtype();
  return backward(cast(d_rows, dtype), cast(outputs, dtype), order, decision.routing,
                  decision.affinities);
}

}  // namespace

MoeLayer::MoeLayer(const nn::BuildContext& context, std::size_t layer, const MoeScope& scope)
    : num_experts_(scope.config.num_experts),
      tells_places_(scope.tells_places),
      exchange_(scope.ep),
      region_(scope.region),
      router_(context, layer, scope.config, scope.router),
      experts_(context, layer, scope.config, share_for(context, scope)),
      shared_(make_shared_experts(context, layer, scope.config)) {}

Tensor MoeLayer::enter(const Tensor& x) const { return region_ ? region_->enter(x).wait() : x; }

void MoeLayer::tell_places(const ExpertOrder& order, const DispatchCounts& counts,
                           nn::Saved& saved) const {
  const std::size_t first = static_cast<std::size_t>(exchange_.ranks().rank()) * order.tokens;
  const Tensor own = Tensor::empty(Device::cpu(), {order.rows(), 1}, DType::kI32);
  for (std::size_t row = 0; row < order.rows(); ++row) {
    own.data<std::int32_t>()[row] = static_cast<std::int32_t>(first + order.token_of(row));
  }
  const Tensor places = in_expert_order(exchange_.dispatch(own, counts).wait(), counts);
  for (const char* maps : {"gate_up", "down"}) {
    saved.child(maps).put("places", places.view({places.numel()}));
  }
}

// [region forward]
Tensor MoeLayer::forward(const Tensor& x, nn::Saved& saved) {
  saved.put("input", x);
  const Tensor tokens = enter(x);  // [batch, seq, hidden]
  const Tensor rows = as_matrix(tokens);
  const Decision decision = router_.forward(rows, tokens.size(0), saved.child("router"));
  const ExpertOrder order = expert_order(decision.destinations, num_experts_);
  const DispatchCounts counts = dispatch_counts(order.rows_per_expert, exchange_.ranks());
  save_counts(counts, saved);

  InFlightRows dispatched = exchange_.dispatch(rows_of_tokens(rows, Tensor(), order), counts);
  Tensor shared;
  if (shared_) shared = shared_->forward(x, saved.child("shared"));  // while rows travel
  const Tensor outputs = experts_.forward(in_expert_order(dispatched.wait(), counts),
                                          counts.rows_per_local_expert(), saved);
  const Tensor combined = exchange_.combine(in_rank_order(outputs, counts), counts).wait();
  saved.put("expert_output", combined);
  Tensor y = tokens_of_rows(combined, decision.routing.weights, order).view(tokens.shape());
  if (region_) y = region_->leave(y).wait();
  if (shared_) ops::add_into(y, shared);
  return y;
}
// [/region]

// [region backward]
Tensor MoeLayer::backward(const Tensor& d_y, nn::Saved& saved) {
  const Tensor d_out = region_ ? region_->leave_backward(d_y).wait() : d_y;  // of all tokens
  const Tensor d_rows = as_matrix(d_out);
  const Decision decision = Router::take_decision(saved.child("router"));
  const ExpertOrder order = expert_order(decision.destinations, num_experts_);
  const DispatchCounts counts = counts_again(order, saved);

  InFlightRows dispatched =
      exchange_.dispatch(rows_of_tokens(d_rows, decision.routing.weights, order), counts);
  Tensor d_shared;
  if (shared_) d_shared = shared_->backward(d_y, saved.child("shared"));  // while rows travel
  if (tells_places_) tell_places(order, counts, saved);
  const Tensor d_affinities =
      affinity_gradients(d_rows, saved.take("expert_output"), order, decision);
  const Tensor d_inputs = experts_.backward(in_expert_order(dispatched.wait(), counts),
                                            counts.rows_per_local_expert(), saved);
  InFlightRows collected = exchange_.combine(in_rank_order(d_inputs, counts), counts);
  const Tensor tokens = enter(saved.take("input"));
  const Tensor d_tokens = router_.backward(d_affinities, decision.affinities, as_matrix(tokens),
                                           tokens.size(0), saved.child("router"));
  ops::add_into(d_tokens, tokens_of_rows(collected.wait(), Tensor(), order));
  Tensor d_x = d_tokens.view(tokens.shape());
  if (region_) d_x = region_->enter_backward(d_x).wait();
  if (shared_) ops::add_into(d_x, d_shared);
  return d_x;
}
// [/region]

std::vector<nn::Parameter*> MoeLayer::parameters() {
  return nn::collect_parameters({&router_, &experts_, shared_.get()});
}

}  // namespace ultra::expert_parallel
