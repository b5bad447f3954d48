#pragma once
/// @file
/// AFAB: all forward, all backward, on ranks of one chunk and of several.
///
/// Exercise 07.1 (`./workbook check 07.1`). Body: solutions/07_pipeline_parallel/afab_list.cpp.

#include <cstddef>

#include "common/train/step_schedule.hpp"

namespace ultra::pipeline_parallel {

/// @brief A rank's passes, of its only chunk: whole backward passes, micro-batches in their order.
/// The list is the same on every rank.
/// Source: Huang et al. 2019, "GPipe", arXiv 1811.06965, section 2.3.
/// Deviation: there micro-batches pass backward in the opposite order.
[[nodiscard]] train::StepSchedule afab_list(std::size_t micro_batches);

/// @brief Breadth-first: a rank's chunks one after the other, each with all micro-batches.
///
/// A micro-batch passes forward through the first chunks of all ranks, then through their second
/// ones, and so on; backward it goes the same way in reverse. What is done once for a chunk, such
/// as gathering its weights, is done once forward and once backward. Micro-batches pass in their
/// order, both times.
/// @param chunks  of the rank, at least 1; with 1 the list is that of afab_list().
/// Source: Lamy-Poirier 2022, "Breadth-First Pipeline Parallelism", arXiv 2211.05953.
[[nodiscard]] train::StepSchedule breadth_first_list(std::size_t chunks, std::size_t micro_batches);

}  // namespace ultra::pipeline_parallel
