#pragma once
/// @file
/// Chapter 01 as a technique: recomputation, accumulation, and what they keep.
///
/// | part of training    | becomes                                      | where                 |
/// |---------------------|----------------------------------------------|-----------------------|
/// | a step's batch      | micro-batches, each forward and backward     | gradient_accumulation |
/// | a block, or several | keeps its input only, and runs forward twice | recompute             |
/// | RMSNorm, backward   | the written one                              | rms_norm_backward     |
/// | the update          | the written AdamW                            | adamw_step            |

#include <memory>

#include "chapters/01_memory/recompute_mode.hpp"
#include "common/train/cli/technique.hpp"
#include "common/train/options/options.hpp"
#include "common/train/report/metrics.hpp"

/// @brief Chapter 01: what training keeps in memory.
namespace ultra::memory {

/// @brief --recompute, and the parts of a training that chapter 01 writes out.
class Memory : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup& setup) override;
  void validate(train::Setup& setup) override;
  [[nodiscard]] train::ExtraConfig config(const train::Setup& setup) const override;
  void wrap_layers(train::FactoryStack& factories, const train::Plan& plan,
                   const train::Setup& setup) const override;
  void configure_step(train::StepConfig& step_config, const train::Setup& setup) const override;
  void write_formulas(train::Formulas& formulas, const train::Setup& setup) const override;

  /// @brief What is computed again.
  [[nodiscard]] const RecomputeConfig& recompute() const { return recompute_; }

 private:
  RecomputeConfig recompute_;
};

/// @brief The technique of this chapter.
[[nodiscard]] std::unique_ptr<train::Technique> technique();

/// @brief What a program that has this chapter computes again.
[[nodiscard]] const RecomputeConfig& recompute_of(const train::Setup& setup);

/// @brief How many times the bytes that states take in f32 with two moments they take in a training.
struct StateFactors {
  double parameters = 1;  ///< of the passes' weights
  double gradients = 1;   ///< of their gradients
  double optimizer = 1;   ///< of what the optimizer keeps, master weights among it
};

/// @brief Those of a training's types and optimizer.
[[nodiscard]] StateFactors state_factors(const train::TrainOptions& options);

}  // namespace ultra::memory
