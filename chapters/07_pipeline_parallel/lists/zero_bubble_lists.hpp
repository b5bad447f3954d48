#pragma once
/// @file
/// ZB-H1 and ZB-H2: the gradients of weights wait until there is nothing better to do.
///
/// A rank passes micro-batches forward, and B backward as soon as it can; W fills what would be a
/// bubble, or comes when too many micro-batches would be kept otherwise.
/// Source: Qi et al. 2023, "Zero Bubble Pipeline Parallelism", arXiv 2401.10241, section 2.1.

#include <cstddef>

#include "chapters/07_pipeline_parallel/lists/interleaved_list.hpp"
#include "chapters/07_pipeline_parallel/lists/list_builder.hpp"

namespace ultra::pipeline_parallel {

/// @brief A rank's passes, of its only chunk; it keeps p micro-batches, as 1F1B's first rank.
[[nodiscard]] RankList zero_bubble_h1_list(const InterleavedRank& rank, std::size_t micro_batches);

/// @brief The same, with 2 p - 1 micro-batches: as many as the way there and back takes.
[[nodiscard]] RankList zero_bubble_h2_list(const InterleavedRank& rank, std::size_t micro_batches);

/// @brief ZB-V: no bubble when F, B and W take as long, with the activations of 1F1B.
///
/// Chunk 0 is on the way there, chunk 1 on the way back. When the way there is full, each rank
/// alternates F B W of one chunk with F B W of the other.
/// Source: Qi et al. 2023, arXiv 2401.10241, section 6 and figure 7; phases as in PyTorch's
/// ScheduleZBVZeroBubble.
[[nodiscard]] RankList zb_v_list(const InterleavedRank& rank, std::size_t micro_batches);

/// @brief DualPipe-V: forward passes of one chunk overlap with backward passes of the other.
///
/// The half of DualPipe that "cut in half" leaves: the second direction is the way back.
/// Source: DeepSeek-V3, 2024, arXiv 2412.19437, section 3.2.1; the phases of DualPipeV in
/// deepseek-ai/DualPipe.
[[nodiscard]] RankList dual_pipe_v_list(const InterleavedRank& rank, std::size_t micro_batches);

}  // namespace ultra::pipeline_parallel
