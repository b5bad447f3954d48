#pragma once
/// @file
/// The command-line options of context parallelism.

#include <cstddef>
#include <optional>
#include <string_view>

#include "chapters/06_context_parallel/attention_methods/context_method.hpp"
#include "chapters/06_context_parallel/context_layout.hpp"
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

}  // namespace ultra::context_parallel
