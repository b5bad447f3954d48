#pragma once
/// @file
/// TrainingState: what a rank must keep of a training so that it can go on later.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chapters/04_zero/sharded_model.hpp"
#include "common/comm/communicator.hpp"
#include "common/nn/model.hpp"
#include "common/optim/adamw.hpp"
#include "common/tensor/tensor.hpp"
#include "common/train/worker.hpp"

namespace ultra::zero {

/// @brief A parameter of the whole model, as files know it.
struct NamedShape {
  std::string name;  ///< Hugging Face's
  Shape shape;       ///< of the whole weight
};

/// @brief The weights and moments of a piece, one-dimensional, on the CPU.
struct PieceValues {
  Tensor weights;          ///< [elements]
  optim::Moments moments;  ///< [elements] each
};

/// @brief One rank's part of a training's state: pieces of parameters, each with its weights and its
/// optimizer's moments.
class TrainingState {
 public:
  /// @brief Where the state is.
  struct Parts {
    std::vector<NamedShape> parameters;  ///< of the whole model, in forward order
    std::vector<OwnedPiece> pieces;      ///< those that this rank updates
    std::vector<bool> saves;             ///< by piece: whether this rank saves it
    /// Copies the weights of a piece to a tensor [elements] on the CPU.
    std::function<void(std::size_t piece, const Tensor& out)> read_weights;
    /// Replaces them by those of a tensor [elements] on the CPU.
    std::function<void(std::size_t piece, const Tensor& in)> write_weights;
    std::function<Tensor(std::size_t piece)> weights;  ///< a tensor of a piece's shape and dtype
    std::shared_ptr<optim::AdamW> optimizer;           ///< of the pieces, in their order
    std::function<void()> share;  ///< gives all ranks the new weights of all pieces; collective
  };

  /// @brief The state that the parts say; they outlive it.
  explicit TrainingState(Parts parts) : parts_(std::move(parts)) {}

  /// @brief The parameters of the whole model.
  [[nodiscard]] const std::vector<NamedShape>& parameters() const { return parts_.parameters; }
  /// @brief The pieces that this rank must have to go on.
  [[nodiscard]] const std::vector<OwnedPiece>& pieces() const { return parts_.pieces; }
  /// @brief Whether this rank saves a piece. All ranks together save every element once.
  [[nodiscard]] bool saves(std::size_t piece) const { return parts_.saves.at(piece); }
  /// @brief Steps that the optimizer counts.
  [[nodiscard]] int optimizer_steps() const { return parts_.optimizer->steps(); }

  /// @brief A copy of a piece in the host's memory. Only after a step.
  [[nodiscard]] PieceValues copy(std::size_t piece) const;

  /// @brief Replaces all pieces, before the first step. Collective.
  /// @param optimizer_steps  that were made.
  /// @param values           fills the values of a piece; they have their sizes.
  void load(int optimizer_steps,
            const std::function<void(std::size_t piece, const PieceValues& values)>& values);

 private:
  Parts parts_;
  Device host_ = Device::cpu();  // its pool keeps the memory of one copy for the next
};

/// @brief Puts a worker around one whose state it is given, for example to save that. The result owns
/// both.
using KeepState = std::function<std::unique_ptr<train::Worker>(
    std::unique_ptr<train::Worker> worker, std::unique_ptr<TrainingState> state,
    const train::RunContext& context)>;

/// @brief The names and whole shapes of a model's parameters.
[[nodiscard]] std::vector<NamedShape> named_shapes(const nn::Model& model);

/// @brief The state of a model of which every rank has a copy: all ranks load all of it, and each saves
/// some parameters.
/// @param model  outlives it.
[[nodiscard]] TrainingState replicated_state(nn::Model& model,
                                             std::shared_ptr<optim::AdamW> optimizer,
                                             const Communicator& replicas);

/// @brief The state of a sharded model: every rank loads its pieces, and the ranks of the first copy
/// save them.
/// @param model, sharded  outlive it.
[[nodiscard]] TrainingState sharded_state(const nn::Model& model, ShardedModel& sharded,
                                          std::shared_ptr<optim::AdamW> optimizer,
                                          const ShardGroups& ranks);

}  // namespace ultra::zero
