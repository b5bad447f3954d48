#pragma once
/// @file
/// ServerLayout: which server keeps which piece of the weights.

#include <cstddef>
#include <span>
#include <vector>

#include "common/tensor/shape.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra::data_parallel {

/// @brief A piece of one parameter: what is pushed, updated and pulled as one.
struct Slice {
  std::size_t parameter = 0;  ///< its number in forward order
  Range elements{};           ///< of the flattened parameter
  int server = 0;             ///< 0 for the first server
  bool operator==(const Slice&) const = default;
};

/// @brief Cuts parameters into slices and deals them to servers, each to the one with the least.
///
/// A parameter is cut into as few slices as it can be, of about the same size. The first of several
/// equal servers gets one: the same on every rank. Servers end up with as many elements as one
/// another, up to one slice.
/// @param counts    elements of each parameter, in forward order.
/// @param capacity  elements of a slice at most; 0 leaves parameters whole.
/// @param servers   at least 1.
/// @return the slices in forward order: of two, the next forward pass needs the earlier one first.
/// Source: Li et al. 2014, "Scaling distributed machine learning with the parameter server", OSDI;
/// the slices are P3's (Jayarajan et al. 2019, arXiv 1905.03960, section 4.2).
[[nodiscard]] std::vector<Slice> slice_parameters(std::span<const std::size_t> counts,
                                                  std::size_t capacity, int servers);

/// @brief The numbers of a server's slices, in forward order.
[[nodiscard]] std::vector<std::size_t> slices_of_server(std::span<const Slice> slices, int server);

/// @brief What a slice holds of its parameter's values or gradient: [its elements], without a copy.
/// @param parameter  the whole tensor; contiguous, of any shape.
[[nodiscard]] Tensor elements_of(const Slice& slice, const Tensor& parameter);

}  // namespace ultra::data_parallel
