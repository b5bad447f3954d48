#pragma once
/// @file
/// Bytes that a rank of a training keeps, in the training's own formats.

#include <cstddef>

#include "chapters/01_memory/estimate/stored_formats.hpp"
#include "chapters/04_zero/zero_memory.hpp"

namespace ultra::zero {

/// @brief What a rank keeps in the formats of a training.
/// @param of_fp32  what it keeps in f32.
[[nodiscard]] RankBytes in_formats(const memory::StoredFormats& formats, const RankBytes& of_fp32);

/// @brief What histories of largest magnitudes take on a rank, with gradients and moments: none of it
/// is sharded.
/// @param numbers  of all histories of the rank: of StoredFormats::block_history() for each block.
[[nodiscard]] RankBytes history_bytes(const memory::StoredFormats& formats, std::size_t numbers);

/// @brief bytes_per_rank() in the formats of a training.
/// @param layers  blocks of the rank, whose histories are counted too.
[[nodiscard]] RankBytes trained_bytes_per_rank(const memory::StoredFormats& formats,
                                               const Sharding& sharding, std::size_t parameters,
                                               std::size_t layers);

}  // namespace ultra::zero
