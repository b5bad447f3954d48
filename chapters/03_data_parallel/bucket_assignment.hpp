#pragma once
/// @file
/// Bucket assignment: which gradients travel together.
///
/// A message for every small gradient pays the latency each time; one message for all of them cannot
/// leave before the backward pass is over. Buckets of a few megabytes, filled in the order in which
/// the backward pass makes gradients, lie in between.
///
/// Exercise 03.2 (`./workbook check 03.2`). Body: solutions/03_data_parallel/bucket_assignment.cpp.
/// Source: Li et al. 2020, "PyTorch distributed", arXiv 2006.15704, sections 3.2.2 and 3.2.3; several
/// kinds as in PyTorch's torch/csrc/distributed/c10d/reducer.cpp, whose kinds are types and devices.

#include <cstddef>
#include <span>
#include <vector>

namespace ultra::data_parallel {

/// @brief Gradients that are reduced by one operation.
struct Bucket {
  std::vector<std::size_t> parameters;  ///< their numbers in forward order, in the bucket's order
  std::size_t count = 0;                ///< elements of all of them
  bool operator==(const Bucket&) const = default;
};

/// @brief Puts parameters into buckets in backward order: the last parameter first.
///
/// A bucket takes parameters until the next one would make it larger than `capacity`; a parameter
/// that is larger by itself gets a bucket of its own. With a capacity of 0 every parameter does.
/// Deviation: PyTorch's first bucket is smaller (1 MB), so that communication starts early.
/// @param counts    elements of each parameter, in forward order; none is 0.
/// @param capacity  elements; any number, 0 and the largest too.
/// @return buckets in the order in which the backward pass fills them; every parameter is in one.
[[nodiscard]] std::vector<Bucket> assign_buckets(std::span<const std::size_t> counts,
                                                 std::size_t capacity);

/// @brief Puts parameters of several kinds into buckets: each kind as assign_buckets() does, for only
/// one kind may travel in a bucket.
///
/// Several buckets fill up at the same time. One is full when its first parameter in forward order
/// has its gradient, which the backward pass makes last.
/// @param kinds  of each parameter, any numbers; as many as counts.
/// @return buckets in the order in which the backward pass fills them up.
[[nodiscard]] std::vector<Bucket> assign_buckets_by_kind(std::span<const std::size_t> counts,
                                                         std::span<const std::size_t> kinds,
                                                         std::size_t capacity);

}  // namespace ultra::data_parallel
