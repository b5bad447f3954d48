#include "chapters/04_zero/checkpoints/training_state.hpp"

#include <vector>

namespace ultra::zero {
namespace {

/// Zeros: what pads a shard has no values in a checkpoint.
PieceValues make_values(const Device& host, std::size_t elements, DType dtype) {
  const auto values = [&] { return Tensor::zeros(host, {elements}, dtype); };
  return {.weights = values(), .moments = {.first = values(), .second = values()}};
}

}  // namespace

TrainingState::TrainingState(const train::TrainerState& trainer) : trainer_(trainer) {
  for (const auto& states : trainer.states) {
    for (std::size_t i = 0; i < states->pieces().size(); ++i) {
      pieces_.push_back(states->pieces()[i]);
      places_.push_back({states.get(), i});
    }
  }
}

bool TrainingState::saves(std::size_t piece) const {
  const Place& place = places_.at(piece);
  return place.states->saves(place.piece);
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
  const Place& place = places_.at(piece);
  const Tensor like = place.states->weights(place.piece);
  const Shape& shape = like.shape();
  const PieceValues copied = make_values(host_, shape.numel(), accumulation_dtype(like.dtype()));
  place.states->read_weights(place.piece, copied.weights);
  optim::MomentStore& moments = place.states->optimizer().moments();
  if (moments.size() == 0) {  // every step so far has been skipped
    copied.moments.first.fill(0.0);
    copied.moments.second.fill(0.0);
    return copied;
  }
  moments.read(place.piece, {.first = copied.moments.first.view(shape),
                             .second = copied.moments.second.view(shape)});
  return copied;
}

void TrainingState::load(
    int optimizer_steps,
    const std::function<void(std::size_t piece, const PieceValues& values)>& values) {
  for (const auto& states : trainer_.states) {
    std::vector<Tensor> weights;
    for (std::size_t i = 0; i < states->pieces().size(); ++i) {
      weights.push_back(states->weights(i));
    }
    states->optimizer().resume(optimizer_steps, weights);
  }
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const auto [states, piece] = places_[i];
    const Tensor like = states->weights(piece);
    const PieceValues loaded = make_values(host_, like.numel(), accumulation_dtype(like.dtype()));
    values(i, loaded);
    states->write_weights(piece, loaded.weights);
    states->optimizer().moments().write(piece,
                                        {.first = loaded.moments.first.view(like.shape()),
                                         .second = loaded.moments.second.view(like.shape())});
  }
  for (const auto& states : trainer_.states) states->share_weights();
}

}  // namespace ultra::zero
