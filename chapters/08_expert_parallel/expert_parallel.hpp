#pragma once
/// @file
/// Chapter 08 as a technique: many feed-forward parts, dealt out to ranks that send tokens to them.
///
/// | what              | becomes                                     | where                     |
/// |-------------------|---------------------------------------------|---------------------------|
/// | feed-forward part | a router, experts, shared experts           | moe_layer                 |
/// | a token           | a row for each expert that it chooses       | top_k_routing             |
/// | rows              | sorted by expert, and back                  | token_permutation         |
/// | rows              | travel to the ranks of their experts        | dispatch_counts, moe/     |
/// | experts' gradients | shares of a sum over edp: same experts     | the group "experts"       |
/// | other gradients   | shares of a sum over dp x cp, as before     | the plan's data group     |
/// | the loss          | gets a term that keeps experts busy         | balancing_loss            |
/// | the choice        | is moved by biases after each step          | balancing/                |
///
/// ep adds no ranks: it deals those of dp x cp out once more.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "chapters/08_expert_parallel/moe_layer.hpp"
#include "chapters/08_expert_parallel/options/expert_parallel_options.hpp"
#include "common/nn/layer_factory.hpp"
#include "common/train/cli/technique.hpp"

namespace ultra::expert_parallel {

/// The axis of ranks that hold the other experts.
inline constexpr std::string_view kAxis = "ep";
/// The axis of ranks that hold the same experts.
inline constexpr std::string_view kReplicaAxis = "edp";

/// @brief The ranks of dp x cp, counted by experts: those that hold the others are neighbours.
[[nodiscard]] MeshView view_of(std::size_t ranks);

/// @brief Makes mixtures of experts, and everything else as the inner factory does.
class ExpertParallelFactory : public nn::FactoryWrapper {
 public:
  /// @param inner  outlives this.
  /// @param scope  of this rank.
  ExpertParallelFactory(nn::LayerFactory& inner, MoeScope scope)
      : FactoryWrapper(inner), scope_(std::move(scope)) {}

  [[nodiscard]] std::unique_ptr<nn::Layer> feed_forward(const nn::BuildContext& context,
                                                        std::size_t layer) override {
    return std::make_unique<MoeLayer>(context, layer, scope_);
  }

 private:
  MoeScope scope_;
};

/// @brief --experts, --ep and what belongs to them.
class ExpertParallel : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup& setup) override;
  void validate(train::Setup& setup) override;
  [[nodiscard]] std::vector<train::Conflict> conflicts(const train::Setup& setup) const override;
  /// @brief Those of trainable_moe_models().
  [[nodiscard]] std::vector<train::NamedModel> named_models() const override;
  void check_ranks(train::Setup& setup) override;
  void validate_training(const train::Setup& setup) const override;
  [[nodiscard]] train::ExtraConfig config(const train::Setup& setup) const override;
  [[nodiscard]] train::Identity identity(const train::Setup& setup) const override;
  [[nodiscard]] std::optional<MeshView> mesh_view() const override;
  void configure_plan(train::Plan& plan, const train::Setup& setup) const override;
  void wrap_layers(train::FactoryStack& factories, const train::Plan& plan,
                   const train::Setup& setup) const override;
  void configure_step(train::StepConfig& step_config, const train::Setup& setup) const override;
  [[nodiscard]] std::string table(const train::Setup& setup,
                                  const train::TrainResult& result) const override;
  void write_formulas(train::Formulas& formulas, const train::Setup& setup) const override;

  /// @brief The flags.
  [[nodiscard]] const ExpertParallelOptions& options() const { return options_; }

 private:
  ExpertParallelOptions options_;
};

/// @brief What a mixture of experts is to this rank and the others.
/// @param plan  its counters outlive the layers.
[[nodiscard]] MoeScope scope_of(const MoeConfig& config, const train::Plan& plan,
                                const train::Setup& setup);

/// @brief The technique of this chapter.
[[nodiscard]] std::unique_ptr<train::Technique> technique();

/// @brief The flags of this chapter in a program that has it.
[[nodiscard]] const ExpertParallelOptions& options_of(const train::Setup& setup);

}  // namespace ultra::expert_parallel
