#pragma once
/// @file
/// OffloadedStates: one rank's optimizer states, and weights or master weights if wanted, in storage
/// outside its device, with a window of blocks on it; and the storage on the rank's timeline.

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "chapters/04_zero/offload/offload_options.hpp"
#include "chapters/04_zero/offload/offloaded_layout.hpp"
#include "chapters/04_zero/offload/offloaded_step.hpp"
#include "common/optim/state_store.hpp"
#include "common/storage/async_file.hpp"
#include "common/tensor/tensor.hpp"
#include "common/trace/step_timeline.hpp"
#include "common/train/report/rank_summary.hpp"
#include "common/train/weights/master_weights.hpp"

namespace ultra::zero {

/// @brief A transfer that has ended, or a wait for one, for a timeline.
struct StorageEvent {
  /// @brief What took the time.
  enum class Kind { kRead, kWrite, kWait };
  Kind kind;                     ///< of this event
  std::string name;              ///< "read block 1"
  storage::TransferTimes times;  ///< when
};

/// @brief A read of weights that is under way.
struct WeightsRead {
  Tensor host = {};            ///< where it writes them
  Tensor out = {};             ///< where they shall be; on the CPU the same
  storage::Transfer transfer;  ///< of the bytes; ends before their memory does
};

/// @brief The states of the tensors that a rank updates, outside its device's memory.
///
/// Memory: three buffers of blocks, as MemoryCategory::kOptimizer, from here on; what is stored is
/// counted by no device. A device with streams reaches the storage by way of as much pinned memory
/// (Device::host()), and the host waits for it before a block is written. Bits are never changed on
/// the way: results are those of states on the device.
/// @see OffloadedStep for the order in which blocks come and go.
class OffloadedStates {
 public:
  /// @brief Opens the storage at its full length and makes the window; the states are zeros.
  /// @param tensors  in the order of the updates.
  /// @throws FileError, OutOfMemory as open_storage().
  OffloadedStates(const OffloadSettings& settings, std::span<const OffloadedTensor> tensors,
                  const Device& device, DType dtype)
      : OffloadedStates(settings, tensors, device, dtype,
                        settings.offloads_parameters() ? OffloadedLayout::Weights::kStored
                                                       : OffloadedLayout::Weights::kStay) {}
  /// @brief The same with weights in storage that the settings do not name: master weights, which are
  /// zeros too.
  OffloadedStates(const OffloadSettings& settings, std::span<const OffloadedTensor> tensors,
                  const Device& device, DType dtype, OffloadedLayout::Weights weights);
  OffloadedStates(const OffloadedStates&) = delete;
  OffloadedStates& operator=(const OffloadedStates&) = delete;

  /// @brief Where everything lies.
  [[nodiscard]] const OffloadedLayout& layout() const { return layout_; }

  // The optimizer step: tensors in their order, each once ------------------------------------------

  /// @brief The states of a tensor, [count] each, on the device until it is given back.
  /// @throws FileError when they cannot be read, or an earlier block could not be written.
  [[nodiscard]] std::vector<Tensor> borrow(std::size_t tensor);
  /// @brief A tensor has its new values.
  void give_back(std::size_t tensor);
  /// @brief Ends the step; the last blocks may still be written while the next passes run.
  void end_step() { step_.end_step(); }

  /// @brief [count] Where a tensor's weights lie while its states are borrowed; at other times the
  /// elements are anything. Only where weights are offloaded.
  [[nodiscard]] Tensor weights_in_window(std::size_t tensor) const;

  // Weights for the passes --------------------------------------------------------------------------

  /// @brief Begins to read weights, when their last values are written.
  /// @param elements  among those of all tensors, one after the other.
  /// @param out       [n] contiguous, on the device; must not be touched before finish_read().
  [[nodiscard]] WeightsRead read_weights_async(const Range& elements, const Tensor& out);
  /// @brief Returns when the weights are there.
  /// @param name  of what was read, for the timeline.
  void finish_read(WeightsRead& read, std::string_view name);

  // Between steps -----------------------------------------------------------------------------------

  /// @brief Copies weights. @param out  [n] on the CPU, of another type if need be.
  void read_weights(const Range& elements, const Tensor& out);
  /// @brief Replaces weights. @param in  [n] on the CPU, of another type if need be.
  void write_weights(const Range& elements, const Tensor& in);
  /// @brief Copies a tensor's states. @param out  of its elements, on the CPU.
  void read_states(std::size_t tensor, std::span<const Tensor> out);
  /// @brief Replaces a tensor's states. @param in  of its elements, on the CPU.
  void write_states(std::size_t tensor, std::span<const Tensor> in);

  /// @brief Returns when everything is written.
  void settle() { step_.settle(); }

  // Measurements ------------------------------------------------------------------------------------

  /// @brief Bytes and seconds so far. Transfers count when they are waited for.
  [[nodiscard]] const train::OffloadUse& use() const { return use_; }
  /// @brief Calls `observer` for each transfer and each wait from now on, on the rank's thread.
  void observe(std::function<void(const StorageEvent&)> observer) {
    observer_ = std::move(observer);
  }

 private:
  /// The transfers of a block: of its states, and of its weights.
  using Transfers = std::vector<storage::Transfer>;

  /// Begins to move all that storage has of a block, by `begin`.
  template <class Begin>
  void start(std::size_t block, std::size_t buffer, Transfers& transfers, const Begin& begin);
  void start_read(std::size_t block, std::size_t buffer);
  void start_write(std::size_t block, std::size_t buffer);
  void finish(std::size_t block, Transfers& transfers, StorageEvent::Kind kind);
  /// Elements of a block that storage has, where they lie in a buffer.
  [[nodiscard]] Range stored_elements(std::size_t block) const;
  /// Waits for a transfer and counts it.
  void wait_for(storage::Transfer& transfer, std::size_t bytes, StorageEvent::Kind kind,
                std::string_view name, train::StorageTraffic& traffic);
  void read_now(const Range& stored, const Tensor& out);
  void write_now(const Range& stored, const Tensor& in);
  [[nodiscard]] std::uint64_t byte(std::size_t element) const { return element * size_of(dtype_); }

  OffloadedLayout layout_;
  DType dtype_;
  std::unique_ptr<storage::AsyncFile> file_;
  std::array<Tensor, kWindowBuffers> window_;
  std::array<Tensor, kWindowBuffers> host_window_;  // what transfers touch: on the CPU window_
  // By buffer. Before the buffers in destruction: they wait until these are free.
  std::array<Transfers, kWindowBuffers> reads_;
  std::array<Transfers, kWindowBuffers> writes_;
  OffloadedStep step_;
  train::OffloadUse use_;
  std::function<void(const StorageEvent&)> observer_;
};

/// @brief The optimizer's store in offloaded states.
/// @param states  of the same tensors, in the same order.
[[nodiscard]] std::unique_ptr<optim::StateStore> offloaded_store(
    std::shared_ptr<OffloadedStates> states);

/// @brief The states of pieces that a rank updates, with their initial master weights, which are
/// states of the optimizer, where the types ask for them.
/// @param rule    of the optimizer: which states it keeps of each.
/// @param like    a parameter of their type, on their device.
/// @return null when nothing is offloaded.
[[nodiscard]] std::shared_ptr<OffloadedStates> offload_states(
    const OffloadSettings& settings, const std::vector<train::OwnedPiece>& pieces,
    const optim::UpdateRule& rule, const nn::Parameter& like, const nn::Precision& precision);

/// @brief The master weights of these pieces, or the weights themselves where those are stored.
/// @param states  null: on the device.
[[nodiscard]] std::unique_ptr<train::MasterWeights> masters_of(
    const std::vector<train::OwnedPiece>& pieces, const nn::Precision& precision,
    const std::shared_ptr<OffloadedStates>& states);

/// @brief From now on every read and write of `states` is a span of the track "storage", or of
/// "storage 2" and so on where several run at once; and every wait for one is in "storage waiting".
/// @param timeline  outlives the states' use.
void show_storage_on(OffloadedStates& states, trace::StepTimeline& timeline);

}  // namespace ultra::zero
