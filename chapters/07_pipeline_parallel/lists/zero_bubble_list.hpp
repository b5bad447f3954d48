#pragma once
/// @file
/// ZB-H1 and ZB-H2: the gradients of weights wait until there is nothing better to do.
///
/// A rank passes micro-batches forward, and B backward as soon as it can; W fills what would be a
/// bubble, or comes when too many micro-batches would be kept otherwise.
/// Source: Qi et al. 2023, "Zero Bubble Pipeline Parallelism", arXiv 2401.10241, section 2.1.

#include <cstddef>
#include <cstdint>

#include "chapters/07_pipeline_parallel/lists/list_builder.hpp"

namespace ultra::pipeline_parallel {

/// @brief How many micro-batches a rank may keep on p stages.
enum class ZeroBubble : std::uint8_t {
  kH1,  ///< p, as 1F1B's first rank
  kH2,  ///< 2 p - 1: as many as the way there and back takes
};

/// @brief A rank's passes, of its only chunk.
[[nodiscard]] ListBuilder zero_bubble_list(ZeroBubble variant, std::size_t stage,
                                           std::size_t stages, std::size_t micro_batches);

}  // namespace ultra::pipeline_parallel
