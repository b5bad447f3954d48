#pragma once
/// @file
/// TrainingState: what a rank must keep of a training so that it can go on later.

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/nn/model.hpp"
#include "common/optim/update_rule.hpp"
#include "common/tensor/tensor.hpp"
#include "common/train/gradients/model_states.hpp"
#include "common/train/model_worker.hpp"

namespace ultra::zero {

/// @brief The weights and optimizer states of a piece, one-dimensional, on the CPU.
struct PieceValues {
  Tensor weights;              ///< [elements]
  std::vector<Tensor> states;  ///< [elements] each, in the order of specs() of the piece
};

/// @brief One rank's part of a training's state: pieces of parameters, each with its weights and
/// its optimizer's states.
class TrainingState {
 public:
  /// @param trainer  what a rank trains with; outlives this.
  explicit TrainingState(const train::TrainerState& trainer);

  /// @brief The parameters of the whole model.
  [[nodiscard]] const std::vector<nn::NamedShape>& parameters() const {
    return trainer_.parameters;
  }
  /// @brief The pieces that this rank must have to go on.
  [[nodiscard]] const std::vector<train::OwnedPiece>& pieces() const { return pieces_; }
  /// @brief Whether this rank saves a piece. All ranks together save every element once.
  [[nodiscard]] bool saves(std::size_t piece) const;
  /// @brief What the optimizer keeps of each weight of a piece; of a frozen one nothing.
  [[nodiscard]] optim::StateSpecs specs(std::size_t piece) const;
  /// @brief Whether the optimizer keeps a state of this name of weights of any kind.
  [[nodiscard]] bool keeps(std::string_view state) const;
  /// @brief Steps that the optimizer counts.
  [[nodiscard]] int optimizer_steps() const;

  /// @brief What else belongs to the training, by name; the same on every rank.
  [[nodiscard]] std::map<std::string, std::vector<double>> numbers() const;
  /// @brief Goes on from those of an earlier run; what it did not have starts anew.
  void load_numbers(const std::map<std::string, std::vector<double>>& saved);

  /// @brief A copy of a piece in the host's memory, weights (master weights, where there are any) and
  /// states in f32 or f64. Only after a step.
  [[nodiscard]] PieceValues copy(std::size_t piece) const;

  /// @brief Replaces all pieces, before the first step. Collective.
  /// @param optimizer_steps  that were made.
  /// @param values           fills the values of a piece; they have their sizes.
  void load(int optimizer_steps,
            const std::function<void(std::size_t piece, const PieceValues& values)>& values);

 private:
  /// Whose piece it is, and its number there.
  struct PieceOwner {
    train::ModelStates* states;
    std::size_t piece;
  };

  train::TrainerState trainer_;
  std::vector<train::OwnedPiece> pieces_;  // of all data groups
  std::vector<PieceOwner> owners_;
  Device host_ = Device::cpu();  // its pool keeps the memory of one copy for the next
};

}  // namespace ultra::zero
