#pragma once
/// @file
/// An optimizer's states in a format of fewer bytes.
///
/// The optimizer computes in f32: it borrows the states of one tensor after the other as f32 and gives
/// them back, and only then they are stored in few bytes. What is stored is what a checkpoint reads; and
/// what was read, when it is written again, is stored in the same bits.

#include <cstddef>
#include <functional>
#include <memory>

#include "common/optim/state_store.hpp"

namespace ultra::mixed_precision {

/// @brief One state of one tensor, as it is stored.
class StoredState {
 public:
  StoredState() = default;
  StoredState(const StoredState&) = delete;
  StoredState& operator=(const StoredState&) = delete;
  virtual ~StoredState() = default;

  /// @brief Stores new values.
  /// @param values  [elements], contiguous, f32 or f64.
  virtual void store(const Tensor& values) = 0;
  /// @brief Writes the stored values.
  /// @param values  as for store().
  virtual void load(const Tensor& values) const = 0;
};

/// Makes a state of zeros for that many elements.
using MakeStoredState = std::function<std::unique_ptr<StoredState>(
    const Device& device, std::size_t elements, const optim::StateSpec& spec)>;

/// @brief States that a format stores.
///
/// Memory: what the format takes, as MemoryCategory::kOptimizer; and, while a tensor is borrowed, its
/// states in f32 (f64 for weights of f64).
[[nodiscard]] std::unique_ptr<optim::StateStore> stored_states(MakeStoredState make);

}  // namespace ultra::mixed_precision
