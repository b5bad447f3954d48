#pragma once
/// @file
/// The options of an attention as kernels take them.

#include "common/ops/attention.hpp"
#include "common/ops/backend/gpu/operands.hpp"
#include "kernels/plain/attention.hpp"

namespace ultra::ops::gpu {

/// @brief Sizes and mask of an attention, with the lists that kernels read on the device.
class SeenKeys {
 public:
  /// @brief Puts on the device what is there of lists.
  /// @param options  with all positions given.
  SeenKeys(const Tensor& query, const Tensor& key, const AttentionOptions& options);

  /// @brief What kernels take.
  [[nodiscard]] const plain::AttentionShape& shape() const { return shape_; }
  /// @brief The first key of each query; undefined without documents.
  [[nodiscard]] const Tensor& first_seen() const { return first_seen_; }
  /// @brief The queries' positions, where they are a list.
  [[nodiscard]] const Tensor& query_list() const { return query_positions_.list(); }
  /// @brief The keys' positions, where they are a list.
  [[nodiscard]] const Tensor& key_list() const { return key_positions_.list(); }

 private:
  DevicePositions query_positions_;
  DevicePositions key_positions_;
  Tensor first_seen_;
  plain::AttentionShape shape_;
};

}  // namespace ultra::ops::gpu
