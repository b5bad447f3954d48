#include "common/ops/backend/gpu/kernel_choice.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>

#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/gpu/runtime.hpp"
#include "common/ops/sums/exact_sum.hpp"
#include "kernels/ladders/attention/attention/attention.hpp"
#include "kernels/ladders/rows/rms_norm/rms_norm.hpp"
#include "kernels/ladders/rows/rms_norm_backward/rms_norm_backward.hpp"
#include "kernels/ladders/rows/rms_norm_bf16/rms_norm_bf16.hpp"
#include "kernels/table/table.hpp"

namespace ultra::ops::gpu {
namespace {

constexpr std::size_t kAccessBytes = 16;
static_assert(kernels::rms_norm_bf16::kLongestRow == kernels::rms_norm::kLongestRow);
constexpr auto kMostElements = static_cast<std::size_t>(std::numeric_limits<int>::max());

/// The ladders count in ints.
bool is_countable(std::size_t rows, std::size_t columns) {
  return rows <= kMostElements && columns <= kMostElements && rows * columns <= kMostElements;
}

bool tiles_fit(const Product& of) {
  const std::size_t rows = of.out.size(0);
  const std::size_t columns = of.out.size(1);
  const std::size_t depth = of.depth();
  return rows >= kLeastTile && columns >= kLeastTile && depth > 0 && is_countable(rows, columns) &&
         is_countable(rows, depth) && is_countable(columns, depth) &&
         (of.write == Write::kOverwrite || of.out.is_contiguous());
}

/// What copies of 16 bytes can read and write, in a layout that has a kernel.
bool turned_tiles_fit(const Product& of) {
  if (of.out.dtype() != DType::kBF16 && of.out.dtype() != DType::kF32) return false;
  const auto fits = [](std::size_t length) { return length % 8 == 0; };
  return fits(of.out.size(1)) && fits(of.a_along_depth() ? of.depth() : of.out.size(0)) &&
         fits(of.b_along_depth() ? of.depth() : of.out.size(1)) &&
         (of.a_along_depth() || !of.b_along_depth());
}

/// Whether a product may be in fp8, and its ladder and the kernels that pack its factors take it.
bool fp8_fits(const Product& of) {
  return of.fp8 && (of.fp8->have_one_scale || of.a_along_depth()) && of.a.dtype() == DType::kBF16 &&
         tiles_fit(of) && turned_tiles_fit(of);
}

/// Whether each query has the place of the key with its number, so that it sees those up to its own.
bool sees_up_to_own(const AttentionOptions& options) {
  const auto queries = options.query_positions;
  return options.mask == Mask::kCausal && std::ranges::equal(queries, options.key_positions) &&
         std::ranges::adjacent_find(queries, std::greater_equal<>()) == queries.end();
}

/// Each query sees the keys up to its own, or all: what the ladders' mask says.
bool mask_fits(const AttentionOptions& options) {
  if (!options.first_seen.empty()) return false;
  return options.mask == Mask::kNone || sees_up_to_own(options);
}

/// Whether the ladders of norms have a kernel for rows like those of x, and enough of them to start it.
bool rows_fit(const Tensor& x, int longest) {
  return (x.dtype() == DType::kF32 || x.dtype() == DType::kBF16) &&
         x.size(-1) <= checked_cast<std::size_t>(longest) && x.numel() >= kLeastTile * kLeastTile;
}

/// Whether documents are long enough, in the mean, for tiles that begin where they do.
bool documents_fit(const AttentionOptions& options) {
  const std::size_t documents = begins_of_documents(options).size();
  return documents > 1 && (documents - 1) * kLeastSequence <= options.first_seen.size();
}

}  // namespace

Hardware hardware_of(const Device& device) {
  if (!has_streams(device.kind())) return {};
  return {.has_vendor_products = device.kind() == DeviceKind::kCuda &&
                                 device.runtime().kernels().why_no_vendor().empty(),
          .is_hopper = device.runtime().properties().compute_capability_major == 9,
          .is_old = device.kind() == DeviceKind::kCuda &&
                    device.runtime().properties().compute_capability_major < 8};
}

MatmulWay choose_matmul(const Hardware& hardware, const Product& of) {
  const Tensor& out = of.out;
  if (of.depth() == 0 || sums_by_trees(out.device())) return MatmulWay::kPlain;
  const MatmulLibrary library = out.device().matmul_library();
  if (hardware.is_hopper && library != MatmulLibrary::kVendor && fp8_fits(of)) {
    return MatmulWay::kHopperFp8;
  }
  if (library != MatmulLibrary::kOurs && hardware.has_vendor_products) return MatmulWay::kVendor;
  if (library == MatmulLibrary::kVendor && out.device().kind() == DeviceKind::kCuda) {
    throw ConfigError("--matmul vendor: " + out.device().runtime().kernels().why_no_vendor());
  }
  if (hardware.is_old || !tiles_fit(of)) return MatmulWay::kPlain;
  if (of.a.dtype() == DType::kF32) return MatmulWay::kLadderF32;
  if (of.a.dtype() != DType::kBF16) return MatmulWay::kPlain;
  // That ladder copies a factor that does not run along the depth.
  const bool has_ladder = out.dtype() == DType::kBF16 && of.depth() % 8 == 0;
  if (has_ladder && of.a_along_depth() && of.b_along_depth()) return MatmulWay::kLadderBf16;
  if (turned_tiles_fit(of)) return MatmulWay::kTurnedBf16;
  return has_ladder ? MatmulWay::kLadderBf16 : MatmulWay::kPlain;
}

bool has_hopper_kernel(const Hardware& hardware, const Product& of) {
  return hardware.is_hopper && of.out.size(1) % 8 == 0;
}

AttentionWay choose_attention(const Hardware& hardware, const Tensor& query, const Tensor& key,
                              DType result, const AttentionOptions& options) {
  const std::size_t head_dim = query.size(3);
  const bool fits = query.size(1) == key.size(1) && query.size(1) >= kLeastSequence &&
                    head_dim <= std::size_t{kernels::attention::kMostHeadDim} &&
                    is_countable(query.numel(), 1);
  if (hardware.is_old || !fits || sums_by_trees(query.device())) return AttentionWay::kPlain;
  const bool has_mask = mask_fits(options);
  if (query.dtype() == DType::kF32 && result == DType::kF32 && head_dim % 4 == 0 && has_mask) {
    return AttentionWay::kLadderF32;
  }
  const bool has_result = result == query.dtype() || result == DType::kF32;
  if (!is_half(query.dtype()) || !has_result || head_dim % 8 != 0) return AttentionWay::kPlain;
  if (!has_mask) {
    return query.dtype() == DType::kBF16 && documents_fit(options) ? AttentionWay::kDocumentsBf16
                                                                   : AttentionWay::kPlain;
  }
  return hardware.is_hopper ? AttentionWay::kHopperHalf : AttentionWay::kLadderHalf;
}

std::vector<std::int32_t> begins_of_documents(const AttentionOptions& options) {
  if (options.first_seen.empty() || !sees_up_to_own(options)) return {};
  const auto positions = options.query_positions;
  std::vector<std::int32_t> begins;
  for (std::size_t token = 0; token < options.first_seen.size(); ++token) {
    const std::size_t place = token % positions.size();
    const std::int32_t first = options.first_seen[token];
    if (place == 0 || first > positions[place - 1]) {
      begins.push_back(checked_cast<std::int32_t>(token));
    }
    // A window that moves on within a document leaves its first token behind.
    const std::size_t own = checked_cast<std::size_t>(begins.back()) % positions.size();
    if (first > positions[own]) return {};
  }
  begins.push_back(checked_cast<std::int32_t>(options.first_seen.size()));
  return begins;
}

bool ladder_fits_rms_norm(const Tensor& y, const Tensor& x, const Tensor& weight) {
  return rows_fit(x, kernels::rms_norm::kLongestRow) && ladder_fits_elements({y, x, weight});
}

bool ladder_fits_rms_norm_backward(const Tensor& d_x, const Tensor& d_y, const Tensor& x,
                                   const Tensor& weight) {
  return rows_fit(x, kernels::rms_norm_backward::kLongestRow) &&
         ladder_fits_elements({d_x, d_y, x, weight});
}

bool ladder_fits_elements(std::initializer_list<Tensor> tensors) {
  if (sums_by_trees(tensors.begin()->device())) return false;
  const DType dtype = tensors.begin()->dtype();
  return std::ranges::all_of(tensors, [&](const Tensor& tensor) {
    return tensor.dtype() == dtype && tensor.is_contiguous() && tensor.numel() > 0 &&
           tensor.numel() <= kMostElements &&
           reinterpret_cast<std::uintptr_t>(tensor.address()) % kAccessBytes == 0;
  });
}

}  // namespace ultra::ops::gpu
