#include "common/ops/backend/gpu/kernel_choice.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>

#include "common/base/errors.hpp"
#include "common/gpu/runtime.hpp"
#include "kernels/ladders/attention/attention/attention.hpp"
#include "kernels/ladders/rows/rms_norm_backward/rms_norm_backward.hpp"
#include "kernels/table/table.hpp"

namespace ultra::ops::gpu {
namespace {

constexpr std::size_t kAccessBytes = 16;
constexpr auto kMostElements = static_cast<std::size_t>(std::numeric_limits<int>::max());

/// The ladders count in ints.
bool is_countable(std::size_t rows, std::size_t columns) {
  return rows <= kMostElements && columns <= kMostElements && rows * columns <= kMostElements;
}

bool tiles_fit(const Tensor& out, std::size_t depth, Write write) {
  const std::size_t rows = out.size(0);
  const std::size_t columns = out.size(1);
  return rows >= kLeastTile && columns >= kLeastTile && depth > 0 && is_countable(rows, columns) &&
         is_countable(rows, depth) && is_countable(columns, depth) &&
         (write == Write::kOverwrite || out.is_contiguous());
}

/// Each query sees the keys up to its own, or all: what the ladders' mask says.
bool mask_fits(const AttentionOptions& options) {
  const auto queries = options.query_positions;
  if (!options.first_seen.empty()) return false;
  if (options.mask == Mask::kNone) return queries.size() == options.key_positions.size();
  return std::ranges::equal(queries, options.key_positions) &&
         std::ranges::adjacent_find(queries, std::greater_equal<>()) == queries.end();
}

}  // namespace

Hardware hardware_of(const Device& device) {
  if (device.kind() != DeviceKind::kCuda) return {};
  return {.has_vendor_products = device.runtime().kernels().why_no_vendor().empty(),
          .is_hopper = device.runtime().properties().compute_capability_major == 9};
}

MatmulWay choose_matmul(const Hardware& hardware, const Tensor& out, const Tensor& a,
                        std::size_t depth, Write write) {
  if (depth == 0) return MatmulWay::kPlain;
  const MatmulLibrary library = out.device().matmul_library();
  if (library != MatmulLibrary::kOurs && hardware.has_vendor_products) return MatmulWay::kVendor;
  if (library == MatmulLibrary::kVendor && out.device().kind() == DeviceKind::kCuda) {
    throw ConfigError("--matmul vendor: " + out.device().runtime().kernels().why_no_vendor());
  }
  if (!tiles_fit(out, depth, write)) return MatmulWay::kPlain;
  if (a.dtype() == DType::kF32) return MatmulWay::kLadderF32;
  const bool fits_bf16 = a.dtype() == DType::kBF16 && out.dtype() == DType::kBF16 && depth % 8 == 0;
  if (!fits_bf16) return MatmulWay::kPlain;
  return hardware.is_hopper && out.size(1) % 8 == 0 ? MatmulWay::kHopperBf16
                                                    : MatmulWay::kLadderBf16;
}

AttentionWay choose_attention(const Hardware& hardware, const Tensor& query, const Tensor& key,
                              DType result, const AttentionOptions& options) {
  const std::size_t head_dim = query.size(3);
  const bool fits = query.size(1) == key.size(1) && query.size(1) >= kLeastSequence &&
                    head_dim <= std::size_t{kernels::attention::kMostHeadDim} &&
                    is_countable(query.numel(), 1) && result == query.dtype() && mask_fits(options);
  if (!fits) return AttentionWay::kPlain;
  if (query.dtype() == DType::kF32 && head_dim % 4 == 0) return AttentionWay::kLadderF32;
  if (query.dtype() != DType::kBF16 || head_dim % 8 != 0) return AttentionWay::kPlain;
  return hardware.is_hopper ? AttentionWay::kHopperBf16 : AttentionWay::kLadderBf16;
}

bool ladder_fits_rms_norm_backward(const Tensor& d_x, const Tensor& d_y, const Tensor& x,
                                   const Tensor& weight) {
  return x.dtype() == DType::kF32 &&
         x.size(-1) <= std::size_t{kernels::rms_norm_backward::kLongestRow} &&
         x.numel() >= kLeastTile * kLeastTile && ladder_fits_elements({d_x, d_y, x, weight});
}

bool ladder_fits_elements(std::initializer_list<Tensor> tensors) {
  const DType dtype = tensors.begin()->dtype();
  return std::ranges::all_of(tensors, [&](const Tensor& tensor) {
    return tensor.dtype() == dtype && tensor.is_contiguous() && tensor.numel() > 0 &&
           tensor.numel() <= kMostElements &&
           reinterpret_cast<std::uintptr_t>(tensor.address()) % kAccessBytes == 0;
  });
}

}  // namespace ultra::ops::gpu
