#pragma once
/// @file
/// Chapter 10 as a technique: a training whose numbers have fewer bits where that does no harm.
///
/// | what                    | becomes                                            | where                |
/// |-------------------------|----------------------------------------------------|----------------------|
/// | weights and activations | numbers of two bytes; sums stay f32                | common/nn, common/ops |
/// | the optimizer's weights | f32 copies, which it shards and saves              | master_weights       |
/// | an update without them  | rounded to nearest, or by chance                   | stochastic_rounding  |
/// | the loss in f16         | scaled, and a step that overflows is skipped       | loss_scaler, recipe/ |
/// | products of linears     | fp8 numbers with a scale per tensor or block       | blockwise_product, fp8/ |
/// | the moments             | bf16, or 8 bits in blocks                          | optimizer_states/    |
/// | the formats themselves  | written out, bit by bit                            | bf16_rounding, e4m3_saturation, formats/ |

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chapters/10_mixed_precision/options/precision_options.hpp"
#include "common/train/cli/technique.hpp"

/// @brief Chapter 10: numbers of two bytes and of one.
namespace ultra::mixed_precision {

/// @brief --precision and what belongs to it. Comes after all other techniques of a program.
class MixedPrecision : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup& setup) override;
  void validate(train::Setup& setup) override;
  void check_ranks(train::Setup& setup) override;
  /// @brief See options/conflicts.cpp.
  [[nodiscard]] std::vector<train::Conflict> conflicts(const train::Setup& setup) const override;
  [[nodiscard]] std::vector<train::Conflict> conflicts_with_recording(
      const train::Setup& setup) const override;
  [[nodiscard]] train::ExtraConfig config(const train::Setup& setup) const override;
  [[nodiscard]] train::Identity identity(const train::Setup& setup) const override;
  [[nodiscard]] std::vector<train::Question> questions() const override;
  [[nodiscard]] std::optional<std::string> answer(const train::Setup& setup) const override;
  void configure_plan(train::Plan& plan, const train::Setup& setup) const override;
  void wrap_layers(train::FactoryStack& factories, const train::Plan& plan,
                   const train::Setup& setup) const override;
  void configure_step(train::StepConfig& step_config, const train::Setup& setup) const override;
  void write_formulas(train::Formulas& formulas, const train::Setup& setup) const override;

  /// @brief The flags.
  [[nodiscard]] const PrecisionOptions& options() const { return options_; }

 private:
  PrecisionOptions options_;
};

/// @brief The technique of this chapter.
[[nodiscard]] std::unique_ptr<train::Technique> technique();

/// @brief Bits, range and spacing of each format, one line each, and what a block of MX adds.
[[nodiscard]] std::string format_table();

}  // namespace ultra::mixed_precision
