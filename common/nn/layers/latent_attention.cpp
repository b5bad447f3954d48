#include "common/nn/layers/latent_attention.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "common/nn/collect.hpp"
#include "common/nn/initialization.hpp"
#include "common/nn/layers/latent_heads.hpp"
#include "common/nn/layers/side_by_side.hpp"
#include "common/ops/elementwise.hpp"

namespace ultra::nn {
namespace {

std::string name_of(std::size_t layer, const char* which) {
  return fmt::format("model.layers.{}.self_attn.{}.weight", layer, which);
}

LinearSpec map_of(std::size_t layer, const char* which, std::size_t in, std::size_t out,
                  std::size_t heads = 0) {
  return {.name = name_of(layer, which),
          .in_features = in,
          .out_features = out,
          .standard_deviation = kInitialDeviation,
          .output_heads = heads};
}

std::unique_ptr<Projections> make_down(const BuildContext& context, std::size_t layer) {
  const LatentAttention& latent = context.config.latent;
  const std::size_t hidden = context.config.hidden_size;
  std::vector<LinearSpec> maps;
  if (latent.q_lora_rank > 0) {
    maps.push_back(map_of(layer, "q_a_proj", hidden, latent.q_lora_rank));
  }
  maps.push_back(map_of(layer, "kv_a_proj_with_mqa", hidden, latent.cached()));
  return context.factory.token_linear(context, maps);
}

std::unique_ptr<Projections> make_query(const BuildContext& context, std::size_t layer) {
  const std::size_t rank = context.config.latent.q_lora_rank;
  const std::size_t heads = context.config.num_heads;
  return context.factory.column_linear(
      context,
      {map_of(layer, rank > 0 ? "q_b_proj" : "q_proj", rank > 0 ? rank : context.config.hidden_size,
              context.config.q_hidden_size(), heads)});
}

std::unique_ptr<Projections> make_key_value(const BuildContext& context, std::size_t layer) {
  const LatentAttention& latent = context.config.latent;
  const std::size_t heads = context.config.num_heads;
  return context.factory.column_linear(
      context, {map_of(layer, "kv_b_proj", latent.kv_lora_rank,
                       heads * (latent.qk_nope_head_dim + latent.v_head_dim), heads)});
}

std::unique_ptr<Layer> make_norm(const BuildContext& context, std::size_t layer, const char* which,
                                 std::size_t width) {
  if (width == 0) return nullptr;
  return context.factory.norm(context, {.name = name_of(layer, which), .width = width});
}

std::unique_ptr<Layer> make_output(const BuildContext& context, std::size_t layer) {
  return context.factory.row_linear(
      context, {.name = name_of(layer, "o_proj"),
                .in_features = context.config.num_heads * context.config.latent.v_head_dim,
                .out_features = context.config.hidden_size,
                .standard_deviation = residual_deviation(context.config)});
}

/// [batch, seq, heads, width] of anything.
Tensor heads_like(const Tensor& x, std::size_t heads, std::size_t width) {
  return Tensor::empty(x.device(), {x.size(0), x.size(1), heads, width}, x.dtype());
}

/// [batch, seq, features] -> [batch, seq, heads, width]; the head count follows from the features.
Tensor heads_of(const Tensor& x, std::size_t width) {
  return x.view({x.size(0), x.size(1), x.size(2) / width, width});
}

Tensor flat(const Tensor& x) { return x.view({x.size(0), x.size(1), x.size(2) * x.size(3)}); }

/// A core divides scores by the root of its rows' width; here they are wider than queries are.
double absorbed_scale(const LatentAttention& sizes) {
  return std::sqrt(static_cast<double>(sizes.cached()) / static_cast<double>(sizes.qk_head_dim()));
}

}  // namespace

LatentSelfAttention::LatentSelfAttention(const BuildContext& context, std::size_t layer)
    : sizes_(context.config.latent),
      down_(make_down(context, layer)),
      query_norm_(make_norm(context, layer, "q_a_layernorm", sizes_.q_lora_rank)),
      query_(make_query(context, layer)),
      latent_norm_(make_norm(context, layer, "kv_a_layernorm", sizes_.kv_lora_rank)),
      key_value_(make_key_value(context, layer)),
      shared_(context.factory.shared_by_heads(context)),
      core_{.attention = context.factory.attention_core(context),
            .rows = {.rotated = sizes_.qk_rope_head_dim, .width = context.config.core_head_dim()}},
      output_(make_output(context, layer)) {}

Tensor LatentSelfAttention::forward(const Tensor& x, Saved& saved) {
  const std::vector<Tensor> down = down_->forward(x, saved.child("down"));
  const Tensor& compressed = down.back();  // [batch, local_seq, kv_lora_rank + qk_rope_head_dim]
  Tensor query = x;
  if (query_norm_) query = query_norm_->forward(down.front(), saved.child("query_norm"));
  query = heads_of(query_->forward(query, saved.child("query")).front(), sizes_.qk_head_dim());
  const std::size_t cut = sizes_.kv_lora_rank;
  const Tensor latent =
      latent_norm_->forward(part_of(compressed, {0, cut}), saved.child("latent_norm"));
  const Tensor rotated = part_of(compressed, {cut, sizes_.cached()});
  const Tensor heads = sizes_.absorbed ? attend_absorbed(query, latent, rotated, saved)
                                       : attend_plain(query, latent, rotated, saved);
  return output_->forward(flat(heads), saved.child("output"));
}

Tensor LatentSelfAttention::backward(const Tensor& d_y, Saved& saved) {
  const Tensor d_heads = heads_of(output_->backward(d_y, saved.child("output")), sizes_.v_head_dim);
  const Tensor d_query = heads_like(d_heads, d_heads.size(2), sizes_.qk_head_dim());
  auto [d_latent, d_rotated] = sizes_.absorbed ? backward_absorbed(d_heads, d_query, saved)
                                               : backward_plain(d_heads, d_query, saved);
  d_latent = latent_norm_->backward(d_latent, saved.child("latent_norm"));
  const Tensor d_flat = flat(d_query);
  const Tensor d_from = query_->backward({&d_flat, 1}, saved.child("query"));
  std::vector<Tensor> d_down;
  if (query_norm_) d_down.push_back(query_norm_->backward(d_from, saved.child("query_norm")));
  d_down.push_back(beside(d_latent, d_rotated));
  const Tensor d_x = down_->backward(d_down, saved.child("down"));
  if (!query_norm_) ops::add_into(d_x, d_from);
  return d_x;
}

// [region plain]
Tensor LatentSelfAttention::attend_plain(const Tensor& query, const Tensor& latent,
                                         const Tensor& rotated, Saved& saved) {
  const std::size_t heads = query.size(2);
  const std::size_t cut = sizes_.qk_nope_head_dim;
  const Tensor made = heads_of(key_value_->forward(latent, saved.child("key_value")).front(),
                               cut + sizes_.v_head_dim);
  const Tensor turned = shared_->forward(rotated, saved.child("shared"));
  const Tensor key = heads_like(query, heads, core_.rows.width);
  core_.rows.put(key, made.slice(3, {0, cut}), heads_of(turned, sizes_.qk_rope_head_dim));
  const Tensor value = heads_like(query, heads, core_.rows.width);
  value.fill(0.0);  // a core's values are as wide as its keys
  value.slice(3, {0, sizes_.v_head_dim}).copy_from(made.slice(3, {cut, made.size(3)}));
  const Tensor attended = core_.attention->forward(arranged(query, part_of(query, {0, cut})), key,
                                                   value, saved.child("core"));
  return part_of(attended, {0, sizes_.v_head_dim});
}
// [/region]

LatentSelfAttention::Entered LatentSelfAttention::backward_plain(const Tensor& d_heads,
                                                                 const Tensor& d_query,
                                                                 Saved& saved) {
  const std::size_t heads = d_heads.size(2);
  const std::size_t cut = sizes_.qk_nope_head_dim;
  const Tensor d_attended = heads_like(d_heads, heads, core_.rows.width);
  d_attended.fill(0.0);
  d_attended.slice(3, {0, sizes_.v_head_dim}).copy_from(d_heads);
  const auto [d_arranged, d_key, d_value] =
      core_.attention->backward(d_attended, saved.child("core"));
  core_.rows.take(d_arranged, d_query.slice(3, {0, cut}),
                  d_query.slice(3, {cut, sizes_.qk_head_dim()}));
  const Tensor d_made = heads_like(d_heads, heads, cut + sizes_.v_head_dim);
  const Tensor d_turned = heads_like(d_heads, heads, sizes_.qk_rope_head_dim);
  core_.rows.take(d_key, d_made.slice(3, {0, cut}), d_turned);
  d_made.slice(3, {cut, d_made.size(3)}).copy_from(d_value.slice(3, {0, sizes_.v_head_dim}));
  const Tensor d_rotated =
      cast(shared_->backward(sum_of_heads(d_turned), saved.child("shared")), d_turned.dtype());
  const Tensor d_flat = flat(d_made);
  return {.latent = key_value_->backward({&d_flat, 1}, saved.child("key_value")),
          .rotated = d_rotated};
}

// [region absorbed]
Tensor LatentSelfAttention::attend_absorbed(const Tensor& query, const Tensor& latent,
                                            const Tensor& rotated, Saved& saved) {
  const std::size_t rank = sizes_.kv_lora_rank;
  const Tensor entered =
      heads_of(shared_->forward(beside(latent, rotated), saved.child("shared")), sizes_.cached());
  const Tensor key = heads_like(entered, 1, core_.rows.width);
  core_.rows.put(key, entered.slice(3, {0, rank}), entered.slice(3, {rank, sizes_.cached()}));
  const HeadMatrices matrices(*key_value_->parameters().front(), sizes_);
  const Tensor compared = arranged(query, matrices.absorb(query));
  ops::scale_into(compared, absorbed_scale(sizes_));
  saved.put("query_heads", query);
  const Tensor attended = core_.attention->forward(compared, key, key, saved.child("core"));
  saved.put("attended", attended);
  return matrices.values(unrotated_of(attended));
}
// [/region]

LatentSelfAttention::Entered LatentSelfAttention::backward_absorbed(const Tensor& d_heads,
                                                                    const Tensor& d_query,
                                                                    Saved& saved) {
  const std::size_t cut = sizes_.qk_nope_head_dim;
  const HeadMatrices matrices(*key_value_->parameters().front(), sizes_);
  const Tensor d_latents = matrices.values_backward(d_heads);
  const Tensor d_attended = heads_like(d_heads, d_heads.size(2), core_.rows.width);
  const Tensor nothing = heads_like(d_heads, 1, sizes_.qk_rope_head_dim);
  nothing.fill(0.0);
  core_.rows.put(d_attended, d_latents, nothing);
  auto [d_compared, d_key, d_value] = core_.attention->backward(d_attended, saved.child("core"));
  ops::scale_into(d_compared, absorbed_scale(sizes_));
  const Tensor d_absorbed = heads_like(d_heads, d_heads.size(2), sizes_.kv_lora_rank);
  core_.rows.take(d_compared, d_absorbed, d_query.slice(3, {cut, sizes_.qk_head_dim()}));
  d_query.slice(3, {0, cut}).copy_from(matrices.absorb_backward(d_absorbed));
  matrices.add_gradients(saved.take("query_heads"), d_absorbed,
                         unrotated_of(saved.take("attended")), d_heads);
  if (d_value.defined()) ops::add_into(d_key, d_value);
  const Tensor d_entered = heads_like(d_key, 1, sizes_.cached());
  core_.rows.take(d_key, d_entered.slice(3, {0, sizes_.kv_lora_rank}),
                  d_entered.slice(3, {sizes_.kv_lora_rank, sizes_.cached()}));
  const Tensor d_both = shared_->backward(flat(d_entered), saved.child("shared"));
  return {.latent = part_of(d_both, {0, sizes_.kv_lora_rank}),
          .rotated = part_of(d_both, {sizes_.kv_lora_rank, sizes_.cached()})};
}

Tensor LatentSelfAttention::arranged(const Tensor& query, const Tensor& unrotated) const {
  const Tensor rows = heads_like(query, query.size(2), core_.rows.width);
  core_.rows.put(rows, unrotated, query.slice(3, {sizes_.qk_nope_head_dim, sizes_.qk_head_dim()}));
  return rows;
}

Tensor LatentSelfAttention::unrotated_of(const Tensor& rows) const {
  const Tensor unrotated = heads_like(rows, rows.size(2), sizes_.kv_lora_rank);
  core_.rows.take(rows, unrotated, heads_like(rows, rows.size(2), sizes_.qk_rope_head_dim));
  return unrotated;
}

std::vector<Parameter*> LatentSelfAttention::parameters() {
  return collect_parameters({down_.get(), query_norm_.get(), query_.get(), latent_norm_.get(),
                             key_value_.get(), core_.attention.get(), output_.get()});
}

}  // namespace ultra::nn
