#pragma once
/// @file
/// One collective on known data: its tensors, its call, and how many elements came out wrong.

#include <cstddef>
#include <memory>

#include "common/comm/communicator.hpp"

namespace ultra::collectives {

/// @brief A collective that can be run again and again on rank-coded integers.
///
/// Element i of rank r is a small integer, so that sums of a thousand ranks are exact in f32 and a
/// single wrong, missing or doubled contribution shows. Sizes are those of nccl-tests: the whole
/// array (see cost_model.hpp), rounded up so that all ranks have equal parts.
/// Source: the method of NVIDIA nccl-tests (exact data, wrong elements counted).
class CollectiveCase {
 public:
  virtual ~CollectiveCase() = default;

  /// @brief Spoils the outputs and has this rank write its contribution anew.
  ///
  /// Before every run: data that another core has written since is what a collective moves. Without
  /// it each core would find the last run's results in its own cache, and time a gift.
  virtual void refresh() = 0;
  /// @brief The collective, on a handle with the algorithms to use.
  virtual void run(const Communicator& comm) = 0;
  /// @brief Elements of this rank's output that are not what they must be.
  [[nodiscard]] virtual std::size_t wrong_elements() const = 0;
  /// @brief Elements of the whole array.
  [[nodiscard]] virtual std::size_t count() const = 0;
};

/// @brief A case of a collective for one rank of `comm`.
/// @param count   elements of the whole array, before rounding.
/// @param device  of this rank's tensors.
/// @throws ConfigError for an operation that is no collective on data.
[[nodiscard]] std::unique_ptr<CollectiveCase> make_case(OpKind op, const Communicator& comm,
                                                        std::size_t count, DType dtype,
                                                        const Device& device);

}  // namespace ultra::collectives
