#pragma once
/// @file
/// Gradient accumulation on replicas: only the last micro-batch communicates.
///
/// Exercise 03.4 (`./workbook check 03.4`).
/// Source: Li et al. 2020, "PyTorch distributed", arXiv 2006.15704, section 3.2.4 (no_sync).

#include <cstddef>

#include "chapters/03_data_parallel/gradient_sync.hpp"
#include "common/data/dataset.hpp"
#include "common/nn/model.hpp"

namespace ultra::data_parallel {

/// @brief Forward and backward over this replica's share of a step, then the averages.
///
/// The share is cut into micro-batches of `micro_batch` sequences; the last one takes what is left.
/// @param share        draws this replica's sequences.
/// @param step         0 for the first.
/// @param micro_batch  at least 1; need not divide the share.
/// @param normalizer   what the summed token losses are divided by: loss_normalizer().
/// @return this replica's loss, whose average over the replicas is that of the global batch.
/// @throws ConfigError when micro_batch is 0.
/// Collective: all replicas call it; their shares and numbers of micro-batches may differ.
/// Cost: what `sync` sends in one step, however many micro-batches there are.
/// Memory: the activations of one micro-batch.
[[nodiscard]] double accumulate_and_sync(nn::Model& model, const data::Sampler& share,
                                         std::size_t step, std::size_t micro_batch,
                                         double normalizer, GradientSync& sync);

}  // namespace ultra::data_parallel
