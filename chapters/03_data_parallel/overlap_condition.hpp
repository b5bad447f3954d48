#pragma once
/// @file
/// The overlap condition: how much of the gradients' communication the backward pass can hide.
///
/// Exercise 03.6 (`./workbook check 03.6`). Legend: N replicas, G bytes of gradients in B equal
/// buckets, T_b seconds of backward pass, c seconds for one bucket's ring all-reduce.
/// Source: the Ultra-Scale Playbook, appendix A3. Deviation: its printed ratio has the number of
/// parameters left over and counts elements where the bandwidth counts bytes; both are put right
/// here.

#include <cstddef>

#include "chapters/02_collectives/simulator/link_cost.hpp"

namespace ultra::data_parallel {

/// @brief One backward pass and its gradients.
struct OverlapCase {
  int replicas = 1;              ///< N, at least 1
  double gradient_bytes = 0;     ///< G
  std::size_t buckets = 1;       ///< B, at least 1
  double backward_seconds = 0;   ///< T_b
  collectives::LinkCost link{};  ///< of each rank to its next
};

/// @brief What becomes of the communication.
struct OverlapPrediction {
  double bucket_seconds = 0;         ///< c
  double communication_seconds = 0;  ///< B c
  double exposed_seconds = 0;        ///< what this backward pass cannot hide of equal buckets
  double hidden_seconds = 0;         ///< the rest

  bool operator==(const OverlapPrediction&) const = default;
};

/// @brief Communication time over backward time when all gradients of a model are added up: at most
/// 1 if the backward pass can hide them.
///
/// The number of parameters cancels out: both sides grow with it.
/// @param tokens            of one replica's backward pass.
/// @param flops             FLOP per second that the replica reaches.
/// @param bytes_per_second  of the link, in one direction.
[[nodiscard]] double overlap_ratio(int replicas, double tokens, double element_bytes, double flops,
                                   double bytes_per_second);

/// @brief The least time that is exposed when buckets are sent as soon as they are full.
///
/// Buckets become ready every T_b / B seconds, the last when the backward pass ends, and travel one
/// after the other.
[[nodiscard]] OverlapPrediction predict_overlap(const OverlapCase& overlap);

}  // namespace ultra::data_parallel
