#pragma once
/// @file
/// Chapter 01 as a technique: recomputation, accumulation, and an account of every byte.
///
/// | part of training    | becomes                                      | where                 |
/// |---------------------|----------------------------------------------|-----------------------|
/// | a step's batch      | micro-batches, each forward and backward     | gradient_accumulation |
/// | a block, or several | keeps its input only, and runs forward twice | recompute             |
/// | RMSNorm, backward   | the written one                              | rms_norm_backward     |
/// | the update          | the written AdamW                            | adamw_step            |

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "chapters/01_memory/estimate/stored_formats.hpp"
#include "chapters/01_memory/memory_options.hpp"
#include "chapters/01_memory/recompute_mode.hpp"
#include "common/train/cli/technique.hpp"
#include "common/train/options/options.hpp"
#include "common/train/report/metrics.hpp"

/// @brief Chapter 01: what training keeps in memory.
namespace ultra::memory {

/// @brief --recompute, --estimate, and the parts of a training that chapter 01 writes out.
class Memory : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup& setup) override;
  void validate(train::Setup& setup) override;
  [[nodiscard]] train::ExtraConfig config(const train::Setup& setup) const override;
  [[nodiscard]] std::vector<train::Question> questions() const override;
  [[nodiscard]] std::optional<std::string> estimate(const train::Setup& setup) const override;
  void wrap_layers(train::FactoryStack& factories, const train::Plan& plan,
                   const train::Setup& setup) const override;
  void configure_step(train::StepConfig& step_config, const train::Setup& setup) const override;
  [[nodiscard]] std::optional<std::string> memory_table(
      const train::Setup& setup, const train::TrainResult& result) const override;

  /// @brief Its flags.
  [[nodiscard]] const MemoryOptions& options() const { return options_; }
  /// @brief The precision of an estimate, by a technique whose --precision says more.
  void set_estimate_precision(NumberFormats precision) { options_.precision = precision; }
  /// @brief The formats of a training, by a technique that stores not all in --dtype.
  void set_formats(const StoredFormats& formats) { formats_ = formats; }
  /// @brief Those of a training in `dtype`, unless a technique has set others.
  [[nodiscard]] StoredFormats formats(DType dtype) const {
    return formats_ ? *formats_ : all_in(dtype);
  }

 private:
  MemoryOptions options_;
  std::optional<StoredFormats> formats_;
};

/// @brief The technique of this chapter.
[[nodiscard]] std::unique_ptr<train::Technique> technique();

/// @brief The flags of this chapter in a program that has it.
[[nodiscard]] const MemoryOptions& options_of(const train::Setup& setup);
/// @brief What a training of these flags stores, for the closed forms of all chapters.
[[nodiscard]] StoredFormats formats_of(const train::Setup& setup);

/// @brief Predicted and measured bytes per category, and when each was at its peak.
[[nodiscard]] std::string format_memory_table(const train::TrainOptions& options,
                                              const StoredFormats& formats,
                                              const RecomputeConfig& recompute,
                                              const train::TrainResult& result);

}  // namespace ultra::memory
