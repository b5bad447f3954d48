#pragma once
/// @file
/// What tensor-core tiles are for, on every side.

namespace ultra::simt {

/// @brief A tile's part in d = a b + c.
enum class TileUse {
  /// @brief a.
  kLeft,
  /// @brief b.
  kRight,
  /// @brief c and d.
  kSum,
};

/// @brief The order of a tile's elements in memory.
enum class TileLayout {
  /// @brief Rows are contiguous.
  kRowMajor,
  /// @brief Columns are contiguous.
  kColumnMajor,
};

}  // namespace ultra::simt
