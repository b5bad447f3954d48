#pragma once
/// @file
/// --sums tree: one order for every sum, so that a training has the same bits on every mesh.
///
/// | sum over                                      | its tree's lower levels       | its upper levels                       |
/// |-----------------------------------------------|-------------------------------|----------------------------------------|
/// | the inner axis of a product                   | the rank that has a part      | all-reduces along tp                   |
/// | tokens, in gradients of weights               | a micro-batch, then the step  | the replicas' exchange                 |
/// | tokens, of norms and latents' maps, with --sp | a rank's part of a sequence   | all-reduces along tp, then as above    |
/// | tokens and heads, of qk-norms                 | a leaf's heads on a rank      | all-reduces along tp, then over tokens |
/// | tokens, of all weights, with --cp             | a rank's part of a sequence   | all-reduces along cp, then as above    |
/// | tokens, of a tied table                       | both terms of a leaf's tokens | as of other weights                    |
/// | tokens, of experts' weights                   | a micro-batch of all ep ranks | the step, and the replicas' exchange   |
/// | queries, in gradients of keys                 | a rank's part of a sequence   | the reduce-scatter along cp            |
/// | heads, of what keys share                     | the heads of a rank           | all-reduces along tp                   |
/// | the vocabulary, in the loss                   | the rank that has a part      | all-reduce along tp                    |
/// | keys of a query, a token's hidden             | one rank                      | none: no layout here cuts them         |
/// | losses, squares of gradients                  | exact: any order              | any order                              |
///
/// Exchanges are chapter 02's "pairwise-tree", whose order is the tree's over the ranks. Sums of bf16 are
/// made in f32 and travel so; they are rounded once, when they are whole.

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/nn/layer_factory.hpp"
#include "common/nn/model.hpp"
#include "common/train/cli/technique.hpp"
#include "common/train/step_observer.hpp"

namespace ultra::five_d {

/// @brief Follows a rank's passes, and joins the gradients that its micro-batches give by an
/// ops::SumTree's upper levels, whatever the order of the backward passes.
///
/// When a step's last backward pass has made a gradient, the sum of all stands in its place. Before, the
/// parameter has none between two passes.
/// @param chunks         of this rank; outlive the observer. Made before who follows their gradients
///                       until they are complete, so that it hears of each of them first.
/// @param micro_batches  of a step, each with one backward pass through each chunk.
/// @param complete       makes the gradient of a micro-batch whole before it is joined, where other ranks
///                       have parts of its sequences, or of its node; empty: it is.
/// Memory: up to log2 of micro_batches gradients of each parameter, and more where backward passes come
/// in another order than the places.
[[nodiscard]] std::unique_ptr<train::StepObserver> join_gradients_by_tree(
    std::span<nn::Model* const> chunks, std::size_t micro_batches,
    const std::function<void(const nn::Parameter&)>& complete = {});

/// @brief Makes linear maps that share their input one by one: each has a whole gradient of the input
/// before these are added up, in the same order on one rank and on many.
/// Cost: along tp, an exchange of the input's gradient for each map, instead of one for all.
class SeparateMapsFactory : public nn::FactoryWrapper {
 public:
  using FactoryWrapper::FactoryWrapper;

  [[nodiscard]] std::unique_ptr<nn::Projections> column_linear(
      const nn::BuildContext& context, const std::vector<nn::LinearSpec>& specs) override;
};

/// @brief --sums. Stands behind all other techniques of a program.
class TreeSums : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup& setup) override;
  void validate(train::Setup& setup) override;
  /// @throws ConfigError also when a size has no tree that the layout cuts at nodes, with the numbers.
  void validate_training(const train::Setup& setup) const override;
  [[nodiscard]] std::vector<train::Conflict> conflicts(const train::Setup& setup) const override;
  [[nodiscard]] std::vector<train::Conflict> conflicts_with_recording(
      const train::Setup& setup) const override;
  [[nodiscard]] train::ExtraConfig config(const train::Setup& setup) const override;
  [[nodiscard]] train::Identity identity(const train::Setup& setup) const override;
  void name_algorithms(train::AlgorithmNames& names) const override;
  void configure_plan(train::Plan& plan, const train::Setup& setup) const override;
  void wrap_layers(train::FactoryStack& factories, const train::Plan& plan,
                   const train::Setup& setup) const override;
  void configure_step(train::StepConfig& step_config, const train::Setup& setup) const override;
  void write_formulas(train::Formulas& formulas, const train::Setup& setup) const override;

 private:
  [[nodiscard]] bool by_trees() const { return sums_ == "tree"; }

  std::string sums_ = "fast";
};

/// @brief The technique of --sums.
[[nodiscard]] std::unique_ptr<train::Technique> tree_sums();

}  // namespace ultra::five_d
