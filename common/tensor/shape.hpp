#pragma once
/// @file
/// Shape: the extents of a tensor's dimensions, kept inline so that handles stay cheap.

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>

namespace ultra {

/// @brief Extents of up to six dimensions, outermost first; the empty shape is a scalar.
class Shape {
 public:
  /// Most dimensions that a tensor here can have.
  static constexpr std::size_t kMaxRank = 6;

  /// @brief The shape of a scalar: no dimensions, one element.
  Shape() = default;

  /// @brief A shape from its extents, outermost first.
  /// @throws ShapeError for more than kMaxRank dimensions.
  Shape(std::initializer_list<std::size_t> dims);

  /// @brief A shape from its extents, outermost first.
  /// @throws ShapeError for more than kMaxRank dimensions.
  explicit Shape(std::span<const std::size_t> dims);

  /// @brief Number of dimensions.
  [[nodiscard]] std::size_t rank() const { return rank_; }

  /// @brief Extent of dimension `dim`; negative counts from the end (-1 is the innermost).
  /// @throws ShapeError when there is no such dimension.
  [[nodiscard]] std::size_t operator[](int dim) const;

  /// @brief Product of all extents; 1 for a scalar.
  [[nodiscard]] std::size_t numel() const;

  /// @brief The extents, outermost first.
  [[nodiscard]] std::span<const std::size_t> dims() const { return {dims_.data(), rank_}; }

  /// @brief The same shape with dimension `dim` (negative counts from the end) set to `extent`.
  [[nodiscard]] Shape with(int dim, std::size_t extent) const;

  /// @brief "[4, 256, 384]".
  [[nodiscard]] std::string str() const;

  /// @brief Equal when all extents are equal.
  bool operator==(const Shape&) const = default;

 private:
  std::size_t index_of(int dim) const;

  std::array<std::size_t, kMaxRank> dims_{};
  std::size_t rank_ = 0;
};

/// @brief A half-open range of indices [begin, end).
struct Range {
  std::size_t begin = 0;  ///< first index
  std::size_t end = 0;    ///< one past the last index

  /// @brief Number of indices.
  [[nodiscard]] std::size_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

}  // namespace ultra
