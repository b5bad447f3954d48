#pragma once
/// @file
/// Chapter 06 as a technique: every sequence in parts, on ranks that hold the same weights.
///
/// | what                  | becomes                                            | where               |
/// |-----------------------|----------------------------------------------------|---------------------|
/// | tokens, targets       | one early and one late chunk of each sequence      | sequence_chunks     |
/// | attention             | own queries against the keys of all ranks          | methods/            |
/// | its score matrix      | blocks, of which the mask needs about half         | needed_blocks       |
/// | partial results       | merged by their log-sum-exp                        | merge_attention     |
/// | keys and values       | on a ring, with their gradients on the way back    | ring_forward, ring_backward |
/// | positions             | those in the whole sequence, not in the part       | context_parallel_factory |
/// | gradients of weights  | shares of a sum over dp x cp                        | the plan's data group |
/// | everything else       | the same, on fewer tokens                          | -                   |

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "chapters/06_context_parallel/attention_methods/context_method.hpp"
#include "chapters/06_context_parallel/context_layout.hpp"
#include "common/train/cli/technique.hpp"
#include "common/train/options/cli_fwd.hpp"
#include "common/train/report/metrics.hpp"

namespace ultra::context_parallel {

/// @brief "ring", "all-gather", "ulysses" or "ulysses+ring".
[[nodiscard]] std::string_view to_string(ContextMethod method);

/// @brief How many ranks share each sequence, which tokens each has, and what travels.
struct ContextParallelOptions {
  std::size_t cp = 1;                               ///< --cp
  SequenceLayout layout = SequenceLayout::kZigzag;  ///< --cp-layout
  ContextMethod method = ContextMethod::kRing;      ///< --cp-method
  std::optional<std::size_t> ulysses;               ///< --cp-ulysses

  /// @brief Adds the flags to a command line.
  void add_to(CLI::App& app);

  /// @brief Checks the values against each other.
  /// @throws ConfigError that says what does not fit and what to do.
  void validate() const;

  /// @brief Whether sequences are split at all.
  [[nodiscard]] bool splits() const { return cp > 1; }
  /// @brief The method, and the ranks that exchange heads.
  [[nodiscard]] MethodChoice choice() const;
  /// @brief These flags for the metrics file.
  [[nodiscard]] train::ExtraConfig config() const;

 private:
  bool layout_given_ = false;
  bool method_given_ = false;
};

/// @brief Checks that a method can deal the heads of a model out.
/// @param tp  ranks that share each matrix, and so the heads.
/// @throws ConfigError with the equation that does not hold, its values and the flag to change.
void expect_heads(const MethodChoice& choice, std::size_t heads, std::size_t kv_heads,
                  std::size_t tp);

/// @brief The name of its axis of the mesh.
inline constexpr std::string_view kAxis = "cp";

/// @brief So many ranks that share the tokens of each sequence.
[[nodiscard]] Axis axis_of(std::size_t ranks);

/// @brief --cp, --cp-layout, --cp-method, --cp-ulysses and --doc-length.
class ContextParallel : public train::Technique {
 public:
  void add_flags(CLI::App& app, train::Setup& setup) override;
  void validate(train::Setup& setup) override;
  void validate_training(const train::Setup& setup) const override;
  [[nodiscard]] std::vector<train::Conflict> conflicts(const train::Setup& setup) const override;
  [[nodiscard]] train::ExtraConfig config(const train::Setup& setup) const override;
  [[nodiscard]] std::optional<Axis> axis() const override;
  void configure_plan(train::Plan& plan, const train::Setup& setup) const override;
  void wrap_layers(train::FactoryStack& factories, const train::Plan& plan,
                   const train::Setup& setup) const override;
  [[nodiscard]] std::string table(const train::Setup& setup,
                                  const train::TrainResult& result) const override;
  void write_formulas(train::Formulas& formulas, const train::Setup& setup) const override;

  /// @brief The flags.
  [[nodiscard]] const ContextParallelOptions& options() const { return options_; }

 private:
  ContextParallelOptions options_;
};

/// @brief How the sequences of a training are dealt out.
[[nodiscard]] ContextLayout layout_of(const train::Setup& setup,
                                      const ContextParallelOptions& options);

/// @brief The technique of this chapter.
[[nodiscard]] std::unique_ptr<train::Technique> technique();

}  // namespace ultra::context_parallel
