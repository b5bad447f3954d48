#include "chapters/04_zero/checkpoints/training_state.hpp"

#include <vector>

namespace ultra::zero {
namespace {

/// Zeros: what pads a shard has no values in a checkpoint.
PieceValues make_values(const Device& host, std::size_t elements, DType dtype, std::size_t states) {
  PieceValues values{.weights = Tensor::zeros(host, {elements}, dtype), .states = {}};
  for (std::size_t s = 0; s < states; ++s) {
    values.states.push_back(Tensor::zeros(host, {elements}, dtype));
  }
  return values;
}

std::vector<Tensor> in_shape(const std::vector<Tensor>& states, const Shape& shape) {
  std::vector<Tensor> views;
  for (const Tensor& state : states) views.push_back(state.view(shape));
  return views;
}

}  // namespace

TrainingState::TrainingState(const train::TrainerState& trainer) : trainer_(trainer) {
  for (const auto& states : trainer.states) {
    for (std::size_t i = 0; i < states->pieces().size(); ++i) {
      pieces_.push_back(states->pieces()[i]);
      owners_.push_back({states.get(), i});
    }
  }
}

bool TrainingState::saves(std::size_t piece) const {
  const PieceOwner& owner = owners_.at(piece);
  return owner.states->saves(owner.piece);
}

optim::StateSpecs TrainingState::specs(std::size_t piece) const {
  const PieceOwner& owner = owners_.at(piece);
  if (pieces_[piece].parameter->is_frozen()) return {};
  return owner.states->optimizer().specs(owner.piece);
}

bool TrainingState::keeps(std::string_view state) const {
  return !trainer_.states.empty() && trainer_.states.front()->optimizer().keeps(state);
}

int TrainingState::optimizer_steps() const {
  return trainer_.states.empty() ? 0 : trainer_.states.front()->optimizer().steps();
}

std::map<std::string, std::vector<double>> TrainingState::numbers() const {
  std::map<std::string, std::vector<double>> all;
  for (const train::NamedNumbers& numbers : trainer_.numbers) all[numbers.name] = numbers.read();
  return all;
}

void TrainingState::load_numbers(const std::map<std::string, std::vector<double>>& saved) {
  for (const train::NamedNumbers& numbers : trainer_.numbers) {
    const auto found = saved.find(numbers.name);
    if (found != saved.end()) numbers.restore(found->second);
  }
}

PieceValues TrainingState::copy(std::size_t piece) const {
  const PieceOwner& owner = owners_.at(piece);
  const Tensor like = owner.states->weights(owner.piece);
  const Shape& shape = like.shape();
  PieceValues copied =
      make_values(host_, shape.numel(), accumulation_dtype(like.dtype()), specs(piece).size());
  owner.states->read_weights(owner.piece, copied.weights);
  optim::StateStore& store = owner.states->optimizer().store();
  // No states: every step so far has been skipped, or the piece is frozen.
  if (store.size() > owner.piece) store.read(owner.piece, in_shape(copied.states, shape));
  return copied;
}

void TrainingState::load(
    int optimizer_steps,
    const std::function<void(std::size_t piece, const PieceValues& values)>& values) {
  for (const auto& states : trainer_.states) {
    std::vector<Tensor> weights;
    for (std::size_t i = 0; i < states->trained_pieces().size(); ++i) {
      weights.push_back(states->weights(i));
    }
    states->optimizer().resume(optimizer_steps, weights);
  }
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const auto [states, piece] = owners_[i];
    const Tensor like = states->weights(piece);
    const PieceValues loaded =
        make_values(host_, like.numel(), accumulation_dtype(like.dtype()), specs(i).size());
    values(i, loaded);
    states->write_weights(piece, loaded.weights);
    if (pieces_[i].parameter->is_frozen()) continue;
    states->optimizer().store().write(piece, in_shape(loaded.states, like.shape()));
  }
  for (const auto& states : trainer_.states) states->share_weights();
}

}  // namespace ultra::zero
