#pragma once
/// @file
/// Philox: random numbers by counter, so that an element's value depends on its global index alone.
///
/// A rank that holds any shard of a parameter fills it without talking to anybody, and every layout
/// starts from the same weights.
/// Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", Philox-4x32-10.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "common/tensor/shape.hpp"
#include "common/tensor/tensor.hpp"

namespace ultra {

/// @brief The Philox-4x32-10 bijection: four random words for a counter under a key.
[[nodiscard]] std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                      std::array<std::uint32_t, 2> key);

/// @brief A stream of random numbers that is indexed, not drawn in order.
class PhiloxStream {
 public:
  /// @param seed  the run's seed.
  /// @param name  what the numbers are for, for example a parameter's name: other name, other numbers.
  PhiloxStream(std::uint64_t seed, std::string_view name);

  /// @brief The index-th standard normal number (Box-Muller, 53-bit uniforms).
  [[nodiscard]] double normal(std::uint64_t index) const;

  /// @brief Normal numbers 2 pair and 2 pair + 1, for the price of one.
  [[nodiscard]] std::array<double, 2> normal_pair(std::uint64_t pair) const;

  /// @brief The index-th uniform number in (0, 1).
  [[nodiscard]] double uniform(std::uint64_t index) const;

  /// @brief The index-th integer in [0, bound), bound > 0.
  [[nodiscard]] std::uint64_t below(std::uint64_t index, std::uint64_t bound) const;

 private:
  [[nodiscard]] std::array<std::uint64_t, 2> words(std::uint64_t block) const;

  std::array<std::uint32_t, 2> key_;
  std::uint64_t name_hash_;
};

/// @brief Fills a shard of a tensor with mean-zero normal numbers, keyed by global element index.
///
/// Elements of two bytes are the f32 numbers, rounded. Large tensors are filled by all cores.
/// @param out           contiguous tensor whose extents are the sizes of `shard`.
/// @param global_shape  shape of the whole tensor.
/// @param shard         the index range of each dimension that `out` holds.
/// @throws ShapeError when shard, global shape and `out` do not fit each other.
void fill_normal(const Tensor& out, const Shape& global_shape, std::span<const Range> shard,
                 const PhiloxStream& stream, double standard_deviation);

/// @brief The same for some elements of the shard: [first, first + out.numel()), row-major.
/// @throws ShapeError when the shard is not a part of the whole, or does not have that many elements.
void fill_normal_elements(const Tensor& out, std::size_t first, const Shape& global_shape,
                          std::span<const Range> shard, const PhiloxStream& stream,
                          double standard_deviation);

}  // namespace ultra
