#pragma once
/// @file
/// What the Playbook has measured of tensor parallelism: throughput over the number of ranks.

#include <cstddef>
#include <span>
#include <string_view>

namespace ultra::tensor_parallel {

/// @brief One bar of the Playbook's figure.
struct PlaybookFigure {
  int tp = 1;                             ///< ranks, tensor and sequence parallel
  std::size_t micro_batch = 1;            ///< the most sequences that fit into memory
  double tokens_per_second_per_rank = 0;  ///< measured

  bool operator==(const PlaybookFigure&) const = default;
};

/// Who says so.
inline constexpr std::string_view kPlaybookSource =
    "The Ultra-Scale Playbook (Hugging Face, 2025), figure of throughput and maximum batch size "
    "with TP and SP: a 3B model, 4096 tokens per sequence, nodes of 8 H100";

/// Tokens per sequence of the figure.
inline constexpr std::size_t kPlaybookSeqLen = 4096;

/// @brief The figure: tp 2, 4, 8, 16 and 32.
[[nodiscard]] std::span<const PlaybookFigure> playbook_figures();

}  // namespace ultra::tensor_parallel
