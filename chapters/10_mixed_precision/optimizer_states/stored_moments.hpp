#pragma once
/// @file
/// StoredMoments: AdamW's moments in a format of fewer bytes.
///
/// The optimizer computes in f32: it borrows the moments of one tensor after the other as f32 and gives
/// them back, and only then they are stored in few bytes. What is stored is what a checkpoint reads; and
/// what was read, when it is written again, is stored in the same bits.

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/optim/moment_store.hpp"

namespace ultra::mixed_precision {

/// @brief One moment of one tensor, as it is stored.
class StoredMoment {
 public:
  StoredMoment() = default;
  StoredMoment(const StoredMoment&) = delete;
  StoredMoment& operator=(const StoredMoment&) = delete;
  virtual ~StoredMoment() = default;

  /// @brief Stores new values.
  /// @param values  [elements], contiguous, f32 or f64.
  virtual void store(const Tensor& values) = 0;
  /// @brief Writes the stored values.
  /// @param values  as for store().
  virtual void load(const Tensor& values) const = 0;
};

/// @brief Which of the two moments: the second is never negative.
enum class MomentKind : std::uint8_t { kFirst, kSecond };

/// Makes a moment of zeros for that many elements.
using MakeStoredMoment = std::function<std::unique_ptr<StoredMoment>(
    const Device& device, std::size_t elements, MomentKind kind)>;

/// @brief Moments that a format stores.
///
/// Memory: what the format takes, as MemoryCategory::kOptimizer; and, while a tensor is borrowed, its
/// moments in f32 (f64 for weights of f64).
[[nodiscard]] std::unique_ptr<optim::MomentStore> stored_moments(MakeStoredMoment make);

}  // namespace ultra::mixed_precision
