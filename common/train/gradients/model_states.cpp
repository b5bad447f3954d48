#include "common/train/gradients/model_states.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "common/base/errors.hpp"
#include "common/optim/clip.hpp"
#include "common/train/gradients/gradient_norm.hpp"
#include "common/train/weights/frozen_weights.hpp"

namespace ultra::train {
namespace {

Tensor flat(const Tensor& tensor) { return tensor.view({tensor.numel()}); }

/// Which rank takes each of the sizes: always the one that has least so far.
std::vector<int> balanced(std::span<const OwnedPiece> pieces, int ranks) {
  std::vector<std::size_t> loads(static_cast<std::size_t>(ranks), 0);
  std::vector<int> taken_by;
  for (const OwnedPiece& piece : pieces) {
    const auto least = std::ranges::min_element(loads);
    *least += piece.elements.size();
    taken_by.push_back(static_cast<int>(least - loads.begin()));
  }
  return taken_by;
}

std::vector<OwnedPiece> whole_pieces(const StatesScope& scope) {
  std::vector<OwnedPiece> pieces;
  for (const nn::Parameter* parameter : scope.parameters) {
    pieces.push_back({.parameter = parameter,
                      .elements = {0, parameter->count()},
                      .is_owner = scope.data.rank() == 0 && parameter->is_owner()});
  }
  const std::vector<int> saved_by = balanced(pieces, scope.data.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    pieces[i].is_saver = scope.data.rank() == saved_by[i] && pieces[i].parameter->is_owner();
  }
  return pieces;
}

/// What makes whole the matrices of which parameters are parts.
std::unique_ptr<optim::MatrixExchange> whole_along(const StatesScope& scope,
                                                   const std::vector<OwnedPiece>& pieces) {
  const OptimizerParts& optimizer = scope.optimizer;
  if (!optimizer.whole || !optimizer.rule->needs_whole(optim::WeightKind::kMatrix)) return nullptr;
  std::vector<const nn::Parameter*> parameters;
  for (const OwnedPiece& piece : pieces) {
    const bool is_matrix = weight_kind(*piece.parameter) == optim::WeightKind::kMatrix;
    parameters.push_back(is_matrix ? piece.parameter : nullptr);
  }
  return optimizer.whole(parameters);
}

}  // namespace

std::unique_ptr<GradientExchange> exchange_of(const StatesScope& scope, const MakeExchange& make) {
  StatesScope of_trained = scope;
  of_trained.parameters = trained(scope.parameters);
  if (!make || of_trained.parameters.empty()) return nullptr;
  return make(of_trained);
}

ModelStates::ModelStates(std::string data_group, std::vector<OwnedPiece> pieces)
    : data_group_(std::move(data_group)), pieces_(std::move(pieces)) {
  const auto is_frozen = [](const OwnedPiece& piece) { return piece.parameter->is_frozen(); };
  const auto first = std::ranges::find_if(pieces_, is_frozen);
  ensure(std::all_of(first, pieces_.end(), is_frozen), "frozen pieces stand behind all others");
  trained_ = static_cast<std::size_t>(first - pieces_.begin());
}

std::vector<OwnedPiece> ModelStates::trained_pieces() const {
  return {pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(trained_)};
}

void ModelStates::update_by(std::unique_ptr<optim::Optimizer> optimizer,
                            std::unique_ptr<MasterWeights> masters) {
  optimizer_ = std::move(optimizer);
  masters_ = std::move(masters);
}

optim::Optimizer& ModelStates::optimizer() {
  ensure(optimizer_ != nullptr, "a rank whose states others keep has no optimizer");
  return *optimizer_;
}

std::vector<optim::TensorUpdate> ModelStates::updates() {
  std::vector<optim::TensorUpdate> updates;
  for (std::size_t i = 0; i < trained_; ++i) {
    const Tensor value = weights(i);
    const Tensor master = masters_->of(i);
    updates.push_back({.value = value,
                       .grad = gradient(i),
                       .decay = decays(*pieces_[i].parameter),
                       .master = master.defined() ? master.view(value.shape()) : Tensor()});
  }
  return updates;
}

void ModelStates::add_squares(std::span<const optim::TensorUpdate> updates,
                              const ParameterNumbers& numbers, StepSums& sums) {
  add_owned_squares(*this, updates, numbers, sums);
}

void ModelStates::update(std::span<const optim::TensorUpdate> updates, const StepRule& rule) {
  optimizer().step(updates, rule.learning_rate, optim::clip_coefficient(rule.norm, rule.clip_norm));
}

void ModelStates::read_weights(std::size_t piece, const Tensor& out) {
  masters_->read(piece, flat(weights(piece)), out);
}

void ModelStates::write_weights(std::size_t piece, const Tensor& in) {
  masters_->write(piece, flat(weights(piece)), in);
}

std::vector<nn::Parameter*> parameters_of(std::span<nn::Model* const> chunks,
                                          std::string_view data_group) {
  std::vector<nn::Parameter*> found;
  std::unordered_set<const nn::Parameter*> known;
  for (nn::Model* chunk : chunks) {
    for (nn::Parameter* parameter : chunk->parameters()) {
      if (parameter->data_group() != data_group) continue;
      if (known.insert(parameter).second) found.push_back(parameter);
    }
  }
  return found;
}

bool decays(const nn::Parameter& parameter) {
  return parameter.global_shape().rank() > 1 && parameter.data_group() != nn::kLocalGroup;
}

// Hugging Face's names, which all parameters have: those of layers begin so.
optim::WeightKind weight_kind(const nn::Parameter& parameter) {
  const bool is_matrix =
      parameter.global_shape().rank() == 2 && parameter.name().starts_with("model.layers.");
  return is_matrix ? optim::WeightKind::kMatrix : optim::WeightKind::kOther;
}

std::unique_ptr<optim::Optimizer> make_optimizer(const OptimizerParts& parts,
                                                 const std::vector<OwnedPiece>& pieces,
                                                 std::unique_ptr<optim::StateStore> store,
                                                 std::unique_ptr<optim::MatrixExchange> whole) {
  if (!store) store = parts.store ? parts.store() : optim::states_on_device();
  std::vector<optim::WeightKind> kinds;
  for (const OwnedPiece& piece : pieces) {
    kinds.push_back(weight_kind(*piece.parameter));
    ensure(whole != nullptr || !parts.rule->needs_whole(kinds.back()) ||
               piece.elements.size() == piece.parameter->global_shape().numel(),
           "a rule of whole matrices has whole matrices, or an exchange");
  }
  return std::make_unique<optim::Optimizer>(
      parts.wrap ? parts.wrap(parts.rule, pieces) : parts.rule, std::move(store), std::move(kinds),
      std::move(whole));
}

ReplicatedStates::ReplicatedStates(const StatesScope& scope,
                                   std::unique_ptr<GradientExchange> exchange)
    : ModelStates(scope.data_group, whole_pieces(scope)),
      parameters_(scope.parameters),
      exchange_(std::move(exchange)) {
  const std::vector<OwnedPiece> trained = trained_pieces();
  update_by(make_optimizer(scope.optimizer, trained, nullptr, whole_along(scope, trained)),
            std::make_unique<MasterWeights>(pieces(), scope.context.options.formats()));
}

}  // namespace ultra::train
