#include "chapters/10_mixed_precision/fp8/fp8_linear.hpp"

#include <algorithm>
#include <utility>

#include "chapters/10_mixed_precision/delayed_scaling.hpp"
#include "chapters/10_mixed_precision/fp8/device/grid_on_device.hpp"
#include "common/base/errors.hpp"
#include "common/tensor/host_view.hpp"

namespace ultra::mixed_precision {
namespace {

constexpr std::string_view kWeightSuffix = ".weight";

/// Place of the input in the history; behind it those of the weights, then those of the gradients.
constexpr std::size_t kInputPlace = 0;

bool counts(const nn::Pass& pass) { return pass.token_weight != 0.0; }

std::string history_name(const nn::Parameter& weight) {
  std::string name = weight.name();
  if (name.ends_with(kWeightSuffix)) name.resize(name.size() - kWeightSuffix.size());
  return name + std::string(kHistorySuffix);
}

/// One row of 1 + history numbers for each tensor of the layer. It is this rank's own as a whole, like
/// everything that no gradient changes; of one dimension, so that no weight decay applies.
std::unique_ptr<nn::Parameter> make_history(const nn::BuildContext& context,
                                            std::span<nn::Parameter* const> weights,
                                            const Fp8Scope& scope) {
  if (scope.recipe.scaling != Scaling::kDelayed) return nullptr;
  const nn::Values values =
      context.values == nn::Values::kNever ? nn::Values::kNever : nn::Values::kAllocated;
  const std::size_t rows = 1 + 2 * weights.size();
  auto history = std::make_unique<nn::Parameter>(
      nn::ParameterSpec{.name = history_name(*weights.front()),
                        .global_shape = {rows * (1 + scope.recipe.history)},
                        .shard = {},
                        .initializer = {.constant = 0.0}},
      context.device, DType::kF32, context.seed, values);
  history->allow_idle();
  history->set_data_group(std::string(nn::kLocalGroup));
  for (const nn::Replication& copies : scope.history_copies) history->replicate(copies);
  return history;
}

GridPart weight_part(const nn::Parameter& weight, const TileShape& tile) {
  const Shape& whole = weight.global_shape();
  return {.rows = weight.shard().at(0),
          .columns = weight.shard().at(1),
          .whole = {.rows = whole[0], .columns = whole[1], .tile = tile}};
}

bool has_steps(std::span<const float> history) {
  return std::ranges::any_of(history.subspan(1), [](float amax) { return amax > 0.0F; });
}

}  // namespace

Fp8Tensors::Fp8Tensors(const nn::BuildContext& context, std::vector<nn::Parameter*> weights,
                       Fp8Scope scope)
    : weights_(std::move(weights)),
      scope_(std::move(scope)),
      compute_(context.precision.compute),
      history_(make_history(context, weights_, scope_)) {
  ensure(scope_.recipe.history > 0, "a history of at least one step");
}

std::vector<nn::Parameter*> Fp8Tensors::parameters() const {
  std::vector<nn::Parameter*> all = weights_;
  if (history_) all.push_back(history_.get());
  return all;
}

Tensor Fp8Tensors::history_of(std::size_t place) const {
  const std::size_t row = 1 + scope_.recipe.history;
  return history_->value().slice(0, {place * row, (place + 1) * row});
}

// [region scales]
/// Without a step that has ended, delayed scaling has nothing to go by but the tensor itself.
/// Deviation: Transformer Engine begins with scales of 1, which small gradients do not survive.
Tensor Fp8Tensors::scales_of(const Tensor& x, const GridPart& part, const Role& role) const {
  const Fp8Recipe& recipe = scope_.recipe;
  if (recipe.scaling == Scaling::kNone) {
    Tensor ones = Tensor::empty(x.device(), {1}, DType::kF32);
    ones.fill(1.0);
    return ones;
  }
  Tensor amax = amax_of(x, part);
  if (have_steps_.contains(role.place)) {
    on_device::delayed_scale(amax, history_of(role.place), role.format, recipe.margin, role.notes);
    return amax;
  }
  if (recipe.scaling == Scaling::kDelayed) {
    const HostView<float> history(history_of(role.place), HostAccess::kReadWrite);
    if (role.notes) note_amax(history.span(), HostView<const float>(amax)[0]);
    if (has_steps(history.span())) {
      if (has_streams(x.device().kind())) have_steps_.insert(role.place);
      amax.fill(static_cast<double>(delayed_scale(history.span(), role.format, recipe.margin)));
      return amax;
    }
  }
  if (role.holders != nullptr && role.holders->size() > 1) {
    role.holders->labeled("fp8 amax").all_reduce(amax, ReduceOp::kMax).wait();
  }
  scales_from_amax(amax, role.format, recipe.margin);
  return amax;
}
// [/region]

OnGrid Fp8Tensors::put_on_grid(const Tensor& x, const GridPart& part, const Role& role) const {
  const Tensor scales = scales_of(x, part, role);
  return {.numbers = on_grid(x, part, scales, role.format), .scales = scales};
}

GridPart Fp8Tensors::token_part(const Tensor& x, const Range& features, std::size_t all) const {
  const std::size_t rows = x.numel() / features.size();
  return {.rows = {0, rows},
          .columns = features,
          .whole = {.rows = rows, .columns = all, .tile = scope_.recipe.token_tile()}};
}

GridPart Fp8Tensors::input_part(const Tensor& x) const {
  const nn::Parameter& weight = *weights_.front();
  return token_part(x, weight.shard().at(1), weight.global_shape()[1]);
}

/// Tiles of tokens belong to one token, so only a tile that is cut along its features is shared.
const Communicator* Fp8Tensors::holders_of_tokens(const GridPart& part) const {
  if (part.whole.tile == kPerTensor) return &scope_.tokens;
  return part.cuts_tiles() ? &scope_.tp : nullptr;
}

OnGrid Fp8Tensors::input(const Tensor& x, const nn::Pass& pass) const {
  const GridPart part = input_part(x);
  return put_on_grid(x, part,
                     {.place = kInputPlace,
                      .format = Fp8::kE4m3,
                      .holders = holders_of_tokens(part),
                      .notes = counts(pass) && !pass.recomputes});
}

Tensor Fp8Tensors::gradient(std::size_t map, const Tensor& d_y, const nn::Pass& pass) const {
  const nn::Parameter& weight = *weights_.at(map);
  const GridPart part = token_part(d_y, weight.shard().at(0), weight.global_shape()[0]);
  return put_on_grid(d_y, part,
                     {.place = 1 + weights_.size() + map,
                      .format = scope_.recipe.gradient_format(),
                      .holders = holders_of_tokens(part),
                      .notes = counts(pass)})
      .numbers;
}

Tensor Fp8Tensors::weight_on_grid(std::size_t map, const nn::Pass& pass) const {
  const nn::Parameter& weight = *weights_.at(map);
  const GridPart part = weight_part(weight, scope_.recipe.weight_tile());
  return put_on_grid(weight.value(), part,
                     {.place = 1 + map,
                      .format = Fp8::kE4m3,
                      .holders = part.cuts_tiles() ? &scope_.tp : nullptr,
                      .notes = counts(pass)})
      .numbers;
}

// [region saved]
void Fp8Tensors::pack_input(const Tensor& x, const OnGrid& input, nn::Saved& saved) const {
  if (!saved.has("input")) return;  // this pass has no backward pass
  const auto codes = [&] {
    return pack_codes(input.numbers, input_part(input.numbers), input.scales, Fp8::kE4m3);
  };
  saved.put("input", saved.can_remake(x) ? x : codes());
  saved.put("input_scales", input.scales);
}

void Fp8Tensors::unpack_input(nn::Saved& saved) const {
  const Tensor kept = saved.take("input");
  const Tensor scales = saved.take("input_scales");
  if (kept.dtype() != DType::kI32) {  // was made again
    saved.put("input", on_grid(kept, input_part(kept), scales, Fp8::kE4m3));
    return;
  }
  const nn::Parameter& weight = *weights_.front();
  const std::size_t rows = kept.numel() / kept.size(-1);
  const GridPart part{
      .rows = {0, rows},
      .columns = weight.shard().at(1),
      .whole = {
          .rows = rows, .columns = weight.global_shape()[1], .tile = scope_.recipe.token_tile()}};
  saved.put("input", unpack_codes(kept, part, scales, Fp8::kE4m3, compute_));
}
// [/region]

/// Whether tiles begin where this rank's parts of the weights do, so that a tile of a product, which counts from
/// there, has one scale.
bool Fp8Tensors::has_tiles_of_products() const {
  if (scope_.recipe.weight_tile() == kPerTensor) return true;
  return std::ranges::all_of(weights_, [](const nn::Parameter* weight) {
    return std::ranges::all_of(weight->shard(),
                               [](const Range& part) { return part.begin % ops::kFp8Tile == 0; });
  });
}

Fp8Tensors::WeightsOnGrid::WeightsOnGrid(const Fp8Tensors& tensors, const nn::Pass& pass, Fp8 left)
    : weights_(tensors.weights_) {
  std::vector<Tensor> on_grid;
  for (std::size_t map = 0; map < weights_.size(); ++map) {
    values_.push_back(weights_[map]->value());
    on_grid.push_back(tensors.weight_on_grid(map, pass));
    weights_[map]->set_value(on_grid.back());
  }
  if (tensors.has_tiles_of_products()) {
    products_.emplace(
        std::move(on_grid),
        ops::Fp8Factors{.left = left == Fp8::kE4m3 ? ops::Fp8Left::kE4m3 : ops::Fp8Left::kE5m2,
                        .have_one_scale = tensors.scope_.recipe.weight_tile() == kPerTensor});
  }
}

Fp8Tensors::WeightsOnGrid::~WeightsOnGrid() {
  for (std::size_t map = 0; map < values_.size(); ++map) weights_[map]->set_value(values_[map]);
}

Fp8Projections::Fp8Projections(const nn::BuildContext& context,
                               std::unique_ptr<nn::Projections> maps, Fp8Scope scope)
    : maps_(std::move(maps)), tensors_(context, maps_->parameters(), std::move(scope)) {}

// [region layer]
std::vector<Tensor> Fp8Projections::forward(const Tensor& x, nn::Saved& saved) {
  const OnGrid input = tensors_.input(x, saved.pass());
  const Fp8Tensors::WeightsOnGrid weights(tensors_, saved.pass(), Fp8::kE4m3);
  std::vector<Tensor> outputs = maps_->forward(input.numbers, saved);
  tensors_.pack_input(x, input, saved);
  return outputs;
}

Tensor Fp8Projections::backward(std::span<const Tensor> d_y, nn::Saved& saved) {
  tensors_.unpack_input(saved);
  const Fp8Tensors::WeightsOnGrid weights(tensors_, saved.pass(), tensors_.gradient_format());
  std::vector<Tensor> gradients;
  for (std::size_t map = 0; map < d_y.size(); ++map) {
    gradients.push_back(tensors_.gradient(map, d_y[map], saved.pass()));
  }
  return maps_->backward(gradients, saved);
}
// [/region]

Fp8Linear::Fp8Linear(const nn::BuildContext& context, std::unique_ptr<nn::Layer> map,
                     Fp8Scope scope)
    : map_(std::move(map)), tensors_(context, map_->parameters(), std::move(scope)) {}

Tensor Fp8Linear::forward(const Tensor& x, nn::Saved& saved) {
  const OnGrid input = tensors_.input(x, saved.pass());
  const Fp8Tensors::WeightsOnGrid weights(tensors_, saved.pass(), Fp8::kE4m3);
  const Tensor y = map_->forward(input.numbers, saved);
  tensors_.pack_input(x, input, saved);
  return y;
}

Tensor Fp8Linear::backward(const Tensor& d_y, nn::Saved& saved) {
  tensors_.unpack_input(saved);
  const Fp8Tensors::WeightsOnGrid weights(tensors_, saved.pass(), tensors_.gradient_format());
  return map_->backward(tensors_.gradient(0, d_y, saved.pass()), saved);
}

}  // namespace ultra::mixed_precision
