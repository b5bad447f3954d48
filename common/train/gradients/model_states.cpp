#include "common/train/gradients/model_states.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "common/optim/clip.hpp"
#include "common/train/weights/master_weights.hpp"

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

std::vector<OwnedPiece> whole_pieces(const std::vector<nn::Parameter*>& parameters) {
  std::vector<OwnedPiece> pieces;
  for (const nn::Parameter* parameter : parameters) {
    pieces.push_back({.parameter = parameter, .elements = {0, parameter->count()}});
  }
  return pieces;
}

class ReplicatedStates : public ModelStates {
 public:
  ReplicatedStates(const StatesScope& scope, std::unique_ptr<GradientExchange> exchange)
      : data_group_(scope.data_group),
        parameters_(scope.parameters),
        rank_(scope.data.rank()),
        exchange_(std::move(exchange)),
        pieces_(whole_pieces(parameters_)),
        optimizer_(make_optimizer(scope.optimizer, pieces_)),
        masters_(pieces_, scope.context.options.formats()) {
    saved_by_ = balanced(pieces_, scope.data.size());
  }

  const std::string& data_group() const override { return data_group_; }
  GradientExchange* exchange() override { return exchange_.get(); }
  const std::vector<OwnedPiece>& pieces() const override { return pieces_; }
  bool owns(std::size_t piece) const override {
    return rank_ == 0 && parameters_[piece]->is_owner();
  }
  bool saves(std::size_t piece) const override {
    return rank_ == saved_by_[piece] && parameters_[piece]->is_owner();
  }

  std::vector<optim::TensorUpdate> updates() override {
    std::vector<optim::TensorUpdate> updates;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      const nn::Parameter& parameter = *parameters_[i];
      const Tensor& master = masters_.of(i);
      updates.push_back({.value = parameter.value(),
                         .grad = parameter.grad(),
                         .decay = decays(parameter),
                         .master = master.defined() ? master.view(parameter.shape()) : Tensor()});
    }
    return updates;
  }

  void update(std::span<const optim::TensorUpdate> updates, const StepRule& rule) override {
    optimizer_->step(updates, rule.learning_rate,
                     optim::clip_coefficient(rule.norm, rule.clip_norm));
  }

  void drop_gradients() override {
    for (nn::Parameter* parameter : parameters_) parameter->drop_grad();
  }

  optim::AdamW& optimizer() override { return *optimizer_; }
  Tensor weights(std::size_t piece) override { return parameters_[piece]->value(); }
  void read_weights(std::size_t piece, const Tensor& out) override {
    masters_.read(piece, flat(weights(piece)), out);
  }
  void write_weights(std::size_t piece, const Tensor& in) override {
    masters_.write(piece, flat(weights(piece)), in);
  }

 private:
  std::string data_group_;
  std::vector<nn::Parameter*> parameters_;
  int rank_;  // in the data group
  std::unique_ptr<GradientExchange> exchange_;
  std::vector<OwnedPiece> pieces_;
  std::unique_ptr<optim::AdamW> optimizer_;
  MasterWeights masters_;
  std::vector<int> saved_by_;  // by piece: the rank of the data group
};

}  // namespace

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
  return parameter.global_shape().rank() > 1 && parameter.data_group() != nn::kOwnGroup;
}

std::unique_ptr<optim::AdamW> make_optimizer(const OptimizerParts& parts,
                                             const std::vector<OwnedPiece>& pieces,
                                             std::unique_ptr<optim::MomentStore> moments) {
  if (!moments) moments = parts.moments ? parts.moments() : optim::moments_on_device();
  auto optimizer =
      std::make_unique<optim::AdamW>(optim::AdamWConfig{}, parts.adamw, std::move(moments));
  if (parts.weight_step) optimizer->change_weights_by(parts.weight_step(parts.adamw, pieces));
  return optimizer;
}

std::unique_ptr<ModelStates> replicated_states(const StatesScope& scope,
                                               std::unique_ptr<GradientExchange> exchange) {
  return std::make_unique<ReplicatedStates>(scope, std::move(exchange));
}

}  // namespace ultra::train
