#pragma once
/// @file
/// What the Ultra-Scale Playbook measured of tensor and sequence parallelism, to stand beside a
/// prediction.

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "chapters/01_memory/memory_estimate.hpp"

namespace ultra::tensor_parallel {

/// @brief One bar of the Playbook's figure.
struct PlaybookFigure {
  int tp = 1;                             ///< ranks, tensor and sequence parallel
  std::size_t micro_batch = 1;            ///< the most sequences that fit into memory
  double tokens_per_second_per_rank = 0;  ///< measured

  /// @brief Equal when all members are.
  bool operator==(const PlaybookFigure&) const = default;
};

/// Who says so.
inline constexpr std::string_view kPlaybookSource =
    "The Ultra-Scale Playbook (Hugging Face, 2025), figure of throughput and maximum batch size "
    "with "
    "TP and SP: a 3B model, 4096 tokens per sequence, nodes of 8 H100";

/// Tokens per sequence of the figure.
inline constexpr std::size_t kPlaybookSeqLen = 4096;

/// @brief The figure: tp 2, 4, 8, 16 and 32.
[[nodiscard]] std::span<const PlaybookFigure> playbook_figures();

/// @brief The bar of that tp, if there is one.
[[nodiscard]] std::optional<PlaybookFigure> find_playbook_figure(int tp);

/// @brief A model for "3B", called playbook-3b.
///
/// The figure does not say which dimensions it has. These are those of the model of 3.57e9
/// parameters in the Playbook's other benchmarks.
/// Source: huggingface/nanotron, scripts/scaling_benchmarks.py.
[[nodiscard]] const memory::TransformerShape& playbook_model();

}  // namespace ultra::tensor_parallel
