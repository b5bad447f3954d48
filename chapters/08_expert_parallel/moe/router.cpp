#include "chapters/08_expert_parallel/moe/router.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "chapters/08_expert_parallel/moe/affinities.hpp"
#include "chapters/08_expert_parallel/moe/bias_name.hpp"
#include "chapters/08_expert_parallel/moe/experts.hpp"
#include "common/nn/initialization.hpp"
#include "common/ops/elementwise.hpp"
#include "common/ops/matmul.hpp"
#include "common/ops/sums/exact_sum.hpp"
#include "common/tensor/host_view.hpp"

namespace ultra::expert_parallel {
namespace {

using ops::Transpose;

nn::ParameterSpec weight_spec(const nn::BuildContext& context, std::size_t layer,
                              const MoeConfig& config) {
  return {.name = moe_prefix(context.config, layer) + ".gate.weight",
          .global_shape = {config.num_experts, context.config.hidden_size},
          .shard = {},
          .initializer = {.standard_deviation = nn::kInitialDeviation}};
}

/// Biases have memory on every rank, whoever shards the weights.
std::unique_ptr<nn::Parameter> make_biases(const nn::BuildContext& context, std::size_t layer,
                                           const MoeConfig& config, const RouterScope& scope) {
  if (config.balance != Balance::kBias) return nullptr;
  const nn::Values values =
      context.values == nn::Values::kNever ? nn::Values::kNever : nn::Values::kAllocated;
  auto biases = std::make_unique<nn::Parameter>(
      nn::ParameterSpec{.name = moe_prefix(context.config, layer) + std::string(kBiasSuffix),
                        .global_shape = {config.num_experts},
                        .shard = {},
                        .initializer = {.constant = 0.0}},
      context.device, accumulation_dtype(context.precision.parameters), context.seed, values);
  biases->allow_idle();
  biases->set_data_group(std::string(nn::kLocalGroup));
  for (const nn::Replication& copies : scope.bias_copies) biases->replicate(copies);
  return biases;
}

/// Whether a token counts for nothing: it pads its sequence, or its micro-batch has no weight.
bool is_padding(const LocalTokens& tokens, const nn::Pass& pass, std::size_t token) {
  if (pass.token_weight == 0.0) return true;
  if (tokens.positions.empty()) return false;
  return static_cast<std::size_t>(tokens.positions[token % tokens.seq]) >= tokens.seq_len;
}

/// The tokens that count for nothing.
std::vector<std::size_t> padding_of(const LocalTokens& tokens, const nn::Pass& pass) {
  std::vector<std::size_t> padding;
  if (pass.token_weight != 0.0 && tokens.positions.empty()) return padding;
  for (std::size_t t = 0; t < tokens.batch * tokens.seq; ++t) {
    if (is_padding(tokens, pass, t)) padding.push_back(t);
  }
  return padding;
}

/// Writes kDropped over the choices of padding.
void mask_padding(const Tensor& experts, const LocalTokens& tokens, const nn::Pass& pass) {
  const std::vector<std::size_t> padding = padding_of(tokens, pass);
  if (padding.empty()) return;
  const std::size_t top_k = experts.size(1);
  const HostView<std::int32_t> choices(experts, HostAccess::kReadWrite);
  for (const std::size_t token : padding) {
    std::ranges::fill(choices.span().subspan(token * top_k, top_k), kDropped);
  }
}

/// Writes zeros over the rows of padding.
void clear_rows(const Tensor& rows, const LocalTokens& tokens, const nn::Pass& pass) {
  for (const std::size_t token : padding_of(tokens, pass)) {
    rows.slice(0, {token, token + 1}).fill(0.0);
  }
}

/// The router's numbers are few, and what it decides the host must know: on a device with streams it
/// waits for the logits, and for nothing else.
Tensor on_host(const Tensor& x) {
  const DeviceKind kind = x.device().kind();
  if (!has_numbers(kind)) return unread_on_host(x);
  return has_streams(kind) ? x.to(x.device().host()) : x;
}

/// Choices where no router has numbers: all experts are as often chosen, each token's are different.
Routing even_routing(const Tensor& affinities, std::size_t top_k) {
  const Shape shape{affinities.size(0), top_k};
  Routing routing{.experts = Tensor::empty(affinities.device(), shape, DType::kI32),
                  .weights = Tensor::empty(affinities.device(), shape, affinities.dtype())};
  const auto experts = static_cast<std::int32_t>(affinities.size(1));
  std::int32_t next = 0;
  for (std::int32_t& expert : routing.experts.span<std::int32_t>()) {
    expert = next;
    next = next + 1 < experts ? next + 1 : 0;
  }
  return routing;
}

/// Back to where the tokens are.
Tensor to_device_of(const Tensor& x, const Tensor& tokens) {
  return has_streams(tokens.device().kind()) ? x.to(tokens.device()) : x;
}

/// Adds shares of a term of the loss, without rounding where sums follow trees: one for each token there.
void add_terms(const nn::Pass& pass, const std::vector<double>& shares) {
  if (!pass.loss_sum.defined() || pass.loss_sum.numel() == 1) {
    for (const double share : shares) pass.add_to_loss(share);
    return;
  }
  if (pass.loss_terms == nullptr || pass.recomputes) return;
  ops::ExactSum sum;
  for (const double share : shares) sum.add(share);
  const Tensor digits = Tensor::empty(Device::cpu(), {ops::ExactSum::kDigits}, DType::kF64);
  sum.put(digits.span<double>(), ops::Write::kOverwrite);
  ops::add_into(pass.loss_sum, digits.to(pass.loss_sum.device()));
}

/// Integers as numbers of another type.
Tensor as_float(const Tensor& counts, DType dtype) {
  Tensor values = Tensor::empty(counts.device(), counts.shape(), dtype);
  dispatch_float(dtype, [&]<class T>() {
    const HostView<const std::int32_t> from(counts);
    const HostView<T> to(values, HostAccess::kWrite);
    std::ranges::transform(from, to.data(),
                           [](std::int32_t count) { return static_cast<T>(count); });
  });
  return values;
}

}  // namespace

std::string load_counter(std::size_t layer, std::size_t expert) {
  return fmt::format("expert_choices.{}.{}", layer, expert);
}

std::string dropped_counter(std::size_t layer) { return fmt::format("dropped_choices.{}", layer); }

Router::Router(const nn::BuildContext& context, std::size_t layer, MoeConfig config,
               RouterScope scope)
    : config_(std::move(config)),
      scope_(std::move(scope)),
      seq_len_(context.config.max_seq_len),
      weight_(weight_spec(context, layer, config_), context.device, context.precision, context.seed,
              context.values),
      biases_(make_biases(context, layer, config_, scope_)),
      dropped_name_(dropped_counter(layer)) {
  for (const nn::Replication& copies : scope_.weight_copies) weight_.replicate(copies);
  for (std::size_t e = 0; e < config_.num_experts; ++e) {
    load_names_.push_back(load_counter(layer, e));
  }
}

LocalTokens Router::tokens_of(std::size_t batch, std::size_t tokens, const nn::Pass& pass) const {
  LocalTokens local{.batch = batch, .seq = tokens / batch, .positions = {}, .seq_len = seq_len_};
  if (pass.places) local.positions = pass.places->positions;
  return local;
}

BalancingTerm Router::balancing_term() const {
  return {.coefficient = config_.aux_coefficient,
          .top_k = config_.top_k,
          .seq_len = seq_len_,
          .sequences = scope_.sequences};
}

double Router::z_scale() const {
  return config_.z_coefficient / static_cast<double>(scope_.sequences * seq_len_);
}

/// [batch, experts] of i32: how often this rank's tokens of each sequence have chosen each expert.
Tensor Router::choices_of(const Tensor& experts, std::size_t batch) const {
  const std::size_t per_sequence = experts.numel() / batch;
  Tensor choices = Tensor::zeros(experts.device(), {batch, config_.num_experts}, DType::kI32);
  const HostView<const std::int32_t> chosen(experts);
  const HostView<std::int32_t> counts(choices, HostAccess::kReadWrite);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (chosen[i] == kDropped) continue;
    ++counts[i / per_sequence * config_.num_experts + static_cast<std::size_t>(chosen[i])];
  }
  return choices;
}

void Router::count(const Tensor& choices, const Tensor& destinations, const nn::Pass& pass) const {
  if (scope_.counters == nullptr || pass.recomputes) return;
  const HostView<const std::int32_t> counts(choices);
  std::size_t all = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    scope_.counters->add(load_names_[i % config_.num_experts], counts[i]);
    all += static_cast<std::size_t>(counts[i]);
  }
  const HostView<const std::int32_t> left(destinations);
  const auto nowhere = static_cast<std::size_t>(std::ranges::count(left, kDropped));
  scope_.counters->add(dropped_name_, static_cast<double>(all - (left.size() - nowhere)));
}

/// Whether the logits are numbers.
bool Router::decides() const { return has_numbers(weight_.device().kind()); }

Tensor Router::affinities_of_numbers(const Tensor& logits) const {
  return decides() ? affinities_of(logits, config_.router) : logits;
}

Routing Router::route(const Tensor& affinities) const {
  const Tensor biases = biases_ ? on_host(biases_->value()) : Tensor();
  return decides() ? top_k_routing(affinities, biases, config_.top_k)
                   : even_routing(affinities, config_.top_k);
}

// [region forward]
Decision Router::forward(const Tensor& x, std::size_t batch, nn::Saved& saved) {
  const nn::Pass& pass = saved.pass();
  const LocalTokens tokens = tokens_of(batch, x.size(0), pass);
  const Tensor logits = on_host(ops::matmul(x, Transpose::kNo, weight_.value(), Transpose::kYes,
                                            accumulation_dtype(x.dtype())));
  const Tensor affinities = affinities_of_numbers(logits);  // [tokens, experts]
  const Routing routing = route(affinities);
  const Tensor destinations = routing.experts.clone();
  mask_padding(destinations, tokens, pass);
  const Tensor choices = choices_of(destinations, batch);
  drop_beyond_capacity(destinations, tokens, config_, scope_.cp);
  count(choices, destinations, pass);
  add_balancing_term(affinities, choices, tokens, saved);
  add_z_loss(logits, tokens, saved);
  saved.put("affinities", affinities);
  saved.put("experts", routing.experts);
  saved.put("weights", routing.weights);
  saved.put("destinations", destinations);
  return {.affinities = affinities, .routing = routing, .destinations = destinations};
}
// [/region]

/// The counts of a sequence are added up over its ranks before they are multiplied with anything:
/// a product of sums is no sum of products.
void Router::add_balancing_term(const Tensor& affinities, const Tensor& choices,
                                const LocalTokens& tokens, nn::Saved& saved) const {
  if (config_.balance != Balance::kAux) return;
  if (scope_.cp.size() > 1) scope_.cp.labeled("expert choices").all_reduce(choices).wait();
  const Tensor of_sequences = as_float(choices, affinities.dtype());
  saved.put("choices", of_sequences);
  if (!decides()) return;
  const Tensor probabilities = probabilities_of(affinities, config_.router).clone();
  clear_rows(probabilities, tokens, saved.pass());
  const Shape shape{tokens.batch, tokens.seq, config_.num_experts};
  add_terms(saved.pass(), balancing_shares(probabilities.view(shape), of_sequences));
}

/// One share; token by token where sums follow trees.
std::vector<double> Router::balancing_shares(const Tensor& probabilities,
                                             const Tensor& of_sequences) const {
  const BalancingTerm term = balancing_term();
  if (!ops::sums_by_trees(weight_.device())) {
    return {balancing_loss(probabilities, of_sequences, term)};
  }
  std::vector<double> shares;
  for (std::size_t s = 0; s < probabilities.size(0); ++s) {
    const Range own{s, s + 1};
    for (std::size_t t = 0; t < probabilities.size(1); ++t) {
      shares.push_back(balancing_loss(probabilities.slice(0, own).slice(1, {t, t + 1}),
                                      of_sequences.slice(0, own), term));
    }
  }
  return shares;
}

void Router::add_z_loss(const Tensor& logits, const LocalTokens& tokens, nn::Saved& saved) const {
  if (config_.z_coefficient == 0.0) return;
  saved.put("logits", logits);
  if (!decides()) return;
  const Tensor sums = log_sum_exp(logits);  // [tokens]
  clear_rows(sums, tokens, saved.pass());
  std::vector<double> shares = {z_scale() * ops::sum_of_squares(sums)};
  if (ops::sums_by_trees(weight_.device())) {
    shares = sums.to_vector();
    for (double& share : shares) share *= z_scale() * share;
  }
  add_terms(saved.pass(), shares);
}

Decision Router::take_decision(nn::Saved& saved) {
  return {.affinities = saved.take("affinities"),
          .routing = {.experts = saved.take("experts"), .weights = saved.take("weights")},
          .destinations = saved.take("destinations")};
}

/// The gradient of the logits, on the host.
Tensor Router::logits_backward(const Tensor& d_affinities, const Tensor& affinities,
                               const LocalTokens& tokens, nn::Saved& saved) {
  if (config_.balance == Balance::kAux) {
    BalancingTerm term = balancing_term();
    term.coefficient *= saved.pass().loss_scale;
    const Tensor d_probabilities =
        balancing_loss_backward(saved.take("choices"), tokens.seq, term).view(affinities.shape());
    if (scope_.adds_loss_gradients) {
      ops::add_into(d_affinities,
                    probabilities_backward(d_probabilities, affinities, config_.router));
    }
  }
  const Tensor d_wide = affinities_backward(d_affinities, affinities, config_.router);
  if (config_.z_coefficient != 0.0) {
    const Tensor logits = saved.take("logits");
    if (scope_.adds_loss_gradients) {
      add_z_loss_gradient(d_wide, logits, z_scale() * saved.pass().loss_scale);
    }
  }
  clear_rows(d_wide, tokens, saved.pass());
  return d_wide;
}

// [region backward]
Tensor Router::backward(const Tensor& d_affinities, const Tensor& affinities, const Tensor& x,
                        std::size_t batch, nn::Saved& saved) {
  const LocalTokens tokens = tokens_of(batch, x.size(0), saved.pass());
  const Tensor d_wide =
      decides() ? cast(logits_backward(d_affinities, affinities, tokens, saved), x.dtype())
                : Tensor::empty(affinities.device(), affinities.shape(), x.dtype());
  const Tensor d_logits = to_device_of(d_wide, x);
  Tensor d_x = ops::matmul(d_logits, Transpose::kNo, weight_.value(), Transpose::kNo);
  nn::add_matmul_grad(weight_, d_logits, x);
  return d_x;
}
// [/region]

std::vector<nn::Parameter*> Router::parameters() {
  std::vector<nn::Parameter*> all = {&weight_};
  if (biases_) all.push_back(biases_.get());
  return all;
}

}  // namespace ultra::expert_parallel
