#pragma once
/// @file
/// MemoryTracker: what a rank's memory is used for, and when it was at its highest.

#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace ultra {

/// @brief What bytes are used for.
///
/// `kActivations` are the tensors that the forward pass keeps for the backward pass (those in a
/// `Saved`), and those that the first half of a split backward pass keeps for the second;
/// short-lived results of operations, buffers and inputs are `kOther`.
enum class MemoryCategory {
  kParameters,
  kGradients,
  kOptimizer,
  kActivations,
  kCommunication,
  kOther
};

/// Number of memory categories.
inline constexpr std::size_t kNumMemoryCategories = 6;

/// All categories in the order in which tables print them.
inline constexpr std::array<MemoryCategory, kNumMemoryCategories> kMemoryCategories = {
    MemoryCategory::kParameters,  MemoryCategory::kGradients,     MemoryCategory::kOptimizer,
    MemoryCategory::kActivations, MemoryCategory::kCommunication, MemoryCategory::kOther};

/// @brief "parameters", "gradients", "optimizer", "activations", "communication" or "other".
[[nodiscard]] std::string_view to_string(MemoryCategory category);

/// @brief Bytes per category at one moment.
struct MemoryUsage {
  std::array<std::size_t, kNumMemoryCategories> bytes{};  ///< indexed by MemoryCategory

  /// @brief Bytes of one category.
  [[nodiscard]] std::size_t operator[](MemoryCategory category) const {
    return bytes[static_cast<std::size_t>(category)];
  }
  /// @brief Bytes of all categories together.
  [[nodiscard]] std::size_t total() const;
};

/// @brief A highest value and the phase of the step in which it was reached.
struct MemoryPeak {
  std::size_t bytes = 0;  ///< the highest value
  std::string phase;      ///< what the rank was doing, for example "step 2: forward"
};

/// @brief Counts live tensor bytes by category and remembers the peaks.
///
/// Not thread safe: its owner, the Device, serialises the calls.
class MemoryTracker {
 public:
  /// Called after each change with the usage that it led to.
  using Listener = std::function<void(const MemoryUsage&)>;

  /// @brief Names what happens from now on; peaks are labelled with it.
  void set_phase(std::string_view phase) { phase_ = phase; }

  /// @brief Adds bytes to a category.
  void add(MemoryCategory category, std::size_t bytes);

  /// @brief Takes bytes from a category.
  void remove(MemoryCategory category, std::size_t bytes);

  /// @brief Moves bytes from one category to another; the total does not change.
  void move(MemoryCategory from, MemoryCategory to, std::size_t bytes);

  /// @brief Bytes in use now.
  [[nodiscard]] const MemoryUsage& current() const { return current_; }

  /// @brief Highest bytes of one category since the last reset, and when.
  [[nodiscard]] const MemoryPeak& peak(MemoryCategory category) const {
    return peaks_[static_cast<std::size_t>(category)];
  }

  /// @brief Highest total since the last reset, and when.
  [[nodiscard]] const MemoryPeak& peak_total() const { return peak_total_; }

  /// @brief Bytes of each category at the moment of the highest total.
  [[nodiscard]] const MemoryUsage& usage_at_peak() const { return at_peak_; }

  /// @brief Forgets the peaks: they start again from the current usage.
  void reset_peaks();

  /// @brief Calls `listener` after every change from now on; an empty function stops that.
  void set_listener(Listener listener) { listener_ = std::move(listener); }

 private:
  void note_peaks(MemoryCategory grown);

  MemoryUsage current_;
  MemoryUsage at_peak_;
  std::array<MemoryPeak, kNumMemoryCategories> peaks_;
  MemoryPeak peak_total_;
  std::string phase_ = "setup";
  Listener listener_;
};

}  // namespace ultra
