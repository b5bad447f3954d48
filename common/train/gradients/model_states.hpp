#pragma once
/// @file
/// ModelStates: what a rank keeps of the parameters of a data group (weights, gradients, states),
/// and how a step changes it.

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/comm/communicator.hpp"
#include "common/nn/model.hpp"
#include "common/optim/optimizer.hpp"
#include "common/train/gradients/gradient_exchange.hpp"
#include "common/train/gradients/owned_piece.hpp"
#include "common/train/plan.hpp"
#include "common/train/run/worker.hpp"
#include "common/train/weights/master_weights.hpp"

namespace ultra::train {

class ParameterNumbers;
class StepSums;

/// @brief The parameters of a data group, of all chunks, in forward order; each once.
[[nodiscard]] std::vector<nn::Parameter*> parameters_of(std::span<nn::Model* const> chunks,
                                                        std::string_view data_group);

/// @brief What an optimizer step needs to know besides the gradients.
struct StepRule {
  double learning_rate;  ///< of this step
  double norm;           ///< of the whole gradient, before clipping
  double clip_norm;      ///< highest norm; 0 means no clipping
};

/// @brief Whether weight decay applies to a parameter: to matrices, not to the weights of norms, and
/// not to what no gradient changes.
[[nodiscard]] bool decays(const nn::Parameter& parameter);

/// @brief What a parameter is to an optimizer's rule: a matrix of a layer, or another weight: a
/// table, the output matrix, a norm.
[[nodiscard]] optim::WeightKind weight_kind(const nn::Parameter& parameter);

/// @brief Weights, gradients and optimizer states of the parameters of one data group, as this rank has
/// them.
///
/// A step: the passes, which exchange() follows; then updates(), whose gradients are complete
/// except for partial ones; update(); drop_gradients(). Derived classes decide how states are
/// shared out.
/// Bodies: ReplicatedStates in model_states.cpp; chapters/04_zero/zero1.cpp, zero2.cpp and
/// zero3.cpp.
class ModelStates {
 public:
  /// @param data_group  whose parameters these are: nn::Parameter::data_group().
  /// @param pieces      those that this rank keeps: the same in each step, frozen ones last.
  ModelStates(std::string data_group, std::vector<OwnedPiece> pieces);
  ModelStates(const ModelStates&) = delete;
  ModelStates& operator=(const ModelStates&) = delete;
  virtual ~ModelStates() = default;

  /// @brief Whose parameters these are.
  [[nodiscard]] const std::string& data_group() const { return data_group_; }
  /// @brief The pieces of parameters that this rank keeps: those that it updates, and after them
  /// those that are frozen.
  [[nodiscard]] const std::vector<OwnedPiece>& pieces() const { return pieces_; }
  /// @brief Those of them that it updates: the first ones.
  [[nodiscard]] std::vector<OwnedPiece> trained_pieces() const;
  /// @brief Whether this rank speaks for all that keep a piece.
  [[nodiscard]] bool owns(std::size_t piece) const { return pieces_.at(piece).is_owner; }
  /// @brief Whether this rank writes a piece to files.
  [[nodiscard]] bool saves(std::size_t piece) const { return pieces_.at(piece).is_saver; }
  /// @brief The optimizer of trained_pieces(), in their order.
  /// @throws InternalError when others update them.
  [[nodiscard]] optim::Optimizer& optimizer();

  /// @brief trained_pieces() with their weights and gradients; none where states have made their updates during
  /// the passes. Only after exchange() is finished.
  [[nodiscard]] virtual std::vector<optim::TensorUpdate> updates();
  /// @brief Adds the squares of the step's gradients to those of their parameters: each element on one
  /// rank only, its owner.
  /// @param updates  updates(), complete.
  virtual void add_squares(std::span<const optim::TensorUpdate> updates,
                           const ParameterNumbers& numbers, StepSums& sums);
  /// @brief Copies the weights of a piece, wherever they are, between steps: the master weights,
  /// where there are any.
  /// @param out  [elements] on the CPU.
  void read_weights(std::size_t piece, const Tensor& out);
  /// @brief Replaces the weights of a piece, wherever they are, between steps; master weights too.
  /// @param in  [elements] on the CPU.
  void write_weights(std::size_t piece, const Tensor& in);

  /// @brief What adds up the gradients of the data group; null when this rank is alone in it.
  [[nodiscard]] virtual GradientExchange* exchange() = 0;

  /// @brief A tensor of a piece's shape and type on the device: its weights, unless they are
  /// elsewhere.
  [[nodiscard]] virtual Tensor weights(std::size_t piece) = 0;
  /// @brief The gradient of a piece, in the shape of its weights.
  [[nodiscard]] virtual Tensor gradient(std::size_t piece) = 0;

  /// @brief Makes the optimizer's step; afterwards the next pass of every rank finds the new
  /// weights. Collective over the data group.
  virtual void update(std::span<const optim::TensorUpdate> updates, const StepRule& rule);

  /// @brief Frees the gradients.
  virtual void drop_gradients() = 0;

  /// @brief Gives all ranks the weights that were written. Collective over the data group.
  virtual void share_weights() {}

  /// @brief The next passes are those of this schedule, again and again; at first those of a step.
  virtual void passes_begin([[maybe_unused]] const StepSchedule& schedule) {}

  /// @brief A step is over: notes what storage it has used.
  virtual void step_ended([[maybe_unused]] RankMeter& meter) {}
  /// @brief The training ends: waits for what is still under way.
  virtual void conclude([[maybe_unused]] RankMeter& meter) {}

 protected:
  /// @brief Says what updates the pieces; without it nothing does.
  /// @param masters  what is updated where it is not weights().
  void update_by(std::unique_ptr<optim::Optimizer> optimizer,
                 std::unique_ptr<MasterWeights> masters);

 private:
  std::string data_group_;
  std::vector<OwnedPiece> pieces_;
  std::size_t trained_;  // the first ones of them
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::unique_ptr<MasterWeights> masters_;
};

/// @brief A rank's model in its run.
struct ModelScope {
  const RunContext& context;       ///< of the run
  const Plan& plan;                ///< of this rank
  std::vector<nn::Model*> chunks;  ///< of this rank's model; outlive what is made of them
};

/// Puts a rule for pieces around another one.
using WrapRule =
    std::function<optim::Rule(optim::Rule rule, const std::vector<OwnedPiece>& pieces)>;

/// Makes what keeps the states of a list of tensors.
using MakeStore = std::function<std::unique_ptr<optim::StateStore>()>;

/// Puts matrices together of which tensor parallelism has left this rank only a part, so that even
/// a whole parameter is not a whole matrix. By number of the parts; null where a weight is not a
/// matrix. Collective.
using MakeWhole = std::function<std::unique_ptr<optim::MatrixExchange>(
    const std::vector<const nn::Parameter*>& parameters)>;

/// @brief What a rank's optimizer is made of.
struct OptimizerParts {
  optim::Rule rule;      ///< how it changes a tensor
  WrapRule wrap = {};    ///< what wraps that rule; empty: nothing
  MakeStore store = {};  ///< where its states live; empty: optim::states_on_device()
  MakeWhole whole = {};  ///< for rules of whole matrices; empty: parameters are whole weights
};

/// @brief What states are made of.
struct StatesScope : ModelScope {
  std::string data_group;  ///< whose states
  std::vector<nn::Parameter*>
      parameters;            ///< those of the data group, in forward order, frozen ones last
  Communicator data;         ///< the ranks of the data group
  OptimizerParts optimizer;  ///< of its parameters
};

/// Makes the exchange of gradients that are whole in memory; null when there is nothing to do.
using MakeExchange = std::function<std::unique_ptr<GradientExchange>(const StatesScope& scope)>;

/// @brief What adds up the gradients of the parameters that are trained; null when none is, or nobody
/// needs to.
[[nodiscard]] std::unique_ptr<GradientExchange> exchange_of(const StatesScope& scope,
                                                            const MakeExchange& make);

/// Makes the states of a data group; collective.
using MakeStates = std::function<std::unique_ptr<ModelStates>(const StatesScope& scope)>;

/// @brief The optimizer of pieces.
/// @param store  null: as the parts say.
/// @param whole  null: each piece is a whole parameter, or the rule needs no whole matrices.
/// @throws InternalError when the rule needs whole matrices, pieces are parts of them, and `whole`
/// is null.
[[nodiscard]] std::unique_ptr<optim::Optimizer> make_optimizer(
    const OptimizerParts& parts, const std::vector<OwnedPiece>& pieces,
    std::unique_ptr<optim::StateStore> store = nullptr,
    std::unique_ptr<optim::MatrixExchange> whole = nullptr);

/// @brief States that are whole on every rank of the data group: plain data parallelism, and one
/// rank.
///
/// Memory: weights, gradients and the rule's states, the latter from the first step on.
class ReplicatedStates : public ModelStates {
 public:
  /// @param exchange  null on one rank.
  ReplicatedStates(const StatesScope& scope, std::unique_ptr<GradientExchange> exchange);

  GradientExchange* exchange() override { return exchange_.get(); }
  Tensor weights(std::size_t piece) override { return parameters_[piece]->value(); }
  Tensor gradient(std::size_t piece) override { return parameters_[piece]->grad(); }
  void drop_gradients() override {
    for (nn::Parameter* parameter : parameters_) parameter->drop_grad();
  }

 private:
  std::vector<nn::Parameter*> parameters_;  // by piece
  std::unique_ptr<GradientExchange> exchange_;
};

}  // namespace ultra::train
