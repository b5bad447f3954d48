#pragma once
/// @file
/// Fp8Products: which products have factors whose numbers fp8 holds.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/tensor/tensor.hpp"

namespace ultra::ops {

/// @brief Rows and columns of the squares of a right factor that have one scale, and neighbours in a row of
/// a left one.
inline constexpr std::size_t kFp8Tile = 128;

/// @brief The format of a left factor; a right one's is e4m3.
enum class Fp8Left : std::uint8_t { kE4m3, kE5m2 };

/// @brief What is known of the factors of products in fp8.
struct Fp8Factors {
  Fp8Left left = Fp8Left::kE4m3;  ///< the left one's format
  bool have_one_scale = false;    ///< each as a whole, not each of its tiles
};

/// @brief While it lives, this thread's products may be computed in fp8 where one of these tensors is
/// the right factor.
///
/// It promises that each tile's numbers are fp8's times one power of two, the tile's own. Tiles are squares
/// of b and kFp8Tile neighbours in a row of a, counted from their first elements; without
/// Fp8Factors::have_one_scale nothing is promised of an a that is transposed. So who multiplies finds such a
/// power again, and needs one byte a number; terms are those of bf16, and only the order of their sums
/// differs, and what the hardware keeps of them.
class Fp8Products {
 public:
  /// @brief From now on; inside of another one, these tensors alone.
  Fp8Products(std::vector<Tensor> right_factors, const Fp8Factors& factors);
  /// @brief What was before is again.
  ~Fp8Products();
  /// @brief It belongs to its block.
  Fp8Products(const Fp8Products&) = delete;
  /// @brief It belongs to its block.
  Fp8Products& operator=(const Fp8Products&) = delete;

  /// @brief What is known of the factors, where a product of this thread with this right factor may be
  /// computed in fp8.
  [[nodiscard]] static std::optional<Fp8Factors> with(const Tensor& right_factor);

 private:
  std::vector<Tensor> right_factors_;
  Fp8Factors factors_;
  const Fp8Products* before_;
};

}  // namespace ultra::ops
