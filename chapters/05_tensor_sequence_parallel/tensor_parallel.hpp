#pragma once
/// @file
/// Chapter 05 as a technique: every matrix in parts, on ranks that work on the same tokens.
///
/// | layer                  | becomes                                          | forward / backward         | where             |
/// |------------------------|--------------------------------------------------|----------------------------|-------------------|
/// | query/key/value, gate/up | columns dealt out: whole heads                 | enter *f*/*g* of a Region  | column_parallel   |
/// | attention out, down    | rows dealt out; the ranks' products add up       | leave *f-bar*/*g-bar*      | row_parallel      |
/// | token table            | rows of the vocabulary; zeros for other tokens   | leave                      | vocabulary_parallel |
/// | output matrix, loss    | columns of the vocabulary; max and sum travel    | two all-reduces per token  | vocabulary_parallel |
/// | norms, residual sums   | whole weights; with --sp a part of each sequence | nothing                    | sequence_region   |
/// | partial gradients      | added up once per step                           | -                          | partial_gradients |

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chapters/05_tensor_sequence_parallel/options/tensor_parallel_options.hpp"
#include "common/train/cli/technique.hpp"

namespace ultra::tensor_parallel {

/// @brief The name of its axis of the mesh.
inline constexpr std::string_view kAxis = "tp";

/// @brief That many ranks share each matrix: neighbours, because they communicate most.
[[nodiscard]] Axis axis_of(std::size_t ranks);

/// @brief --tp, --sp, --tp-overlap and --shapes.
class TensorParallel : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup& setup) override;
  void validate(train::Setup& setup) override;
  void validate_training(const train::Setup& setup) const override;
  [[nodiscard]] train::ExtraConfig config(const train::Setup& setup) const override;
  [[nodiscard]] std::vector<train::Question> questions() const override;
  [[nodiscard]] std::optional<std::string> answer(const train::Setup& setup) const override;
  [[nodiscard]] std::optional<Axis> axis() const override;
  void configure_plan(train::Plan& plan, const train::Setup& setup) const override;
  void wrap_layers(train::FactoryStack& factories, const train::Plan& plan,
                   const train::Setup& setup) const override;
  void configure_step(train::StepConfig& step_config, const train::Setup& setup) const override;
  void write_formulas(train::Formulas& formulas, const train::Setup& setup) const override;

  /// @brief The flags.
  [[nodiscard]] const TensorParallelOptions& options() const { return options_; }

 private:
  TensorParallelOptions options_;
};

/// @brief Adds the groups that hold the same parameters along tp to a plan.
/// @param num_kv_heads  of the model.
/// Collective over tp.
void add_tensor_groups(train::RankGroups& groups, const Communicator& tp, std::size_t num_kv_heads);

/// @brief The technique of this chapter.
[[nodiscard]] std::unique_ptr<train::Technique> technique();

}  // namespace ultra::tensor_parallel
