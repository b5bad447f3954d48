#include "chapters/10_mixed_precision/fp8/scaled_grid.hpp"

#include <algorithm>
#include <array>

#include "chapters/10_mixed_precision/fp8/device/grid_on_device.hpp"
#include "chapters/10_mixed_precision/fp8/grid_rounding.hpp"
#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/tensor/host_view.hpp"

namespace ultra::mixed_precision {
namespace {

/// Calls fn with the C++ type of a tensor that can stand on a grid.
template <class Fn>
void dispatch_grid(DType dtype, const Fn& fn) {
  if (dtype == DType::kBF16) return fn.template operator()<BFloat16>();
  dispatch_float(dtype, fn);
}

/// Calls fn with the format as a constant.
template <class Fn>
void dispatch_fp8(Fp8 format, const Fn& fn) {
  if (format == Fp8::kE4m3) return fn.template operator()<Fp8::kE4m3>();
  fn.template operator()<Fp8::kE5m2>();
}

/// Calls visit(row here, first column here, columns, tile of the whole) for each run of a row that
/// lies in one tile.
template <class Visit>
void for_runs(const GridPart& part, const Visit& visit) {
  const std::size_t extent = part.whole.tile.columns;
  for (std::size_t row = part.rows.begin; row < part.rows.end; ++row) {
    for (std::size_t column = part.columns.begin; column < part.columns.end;) {
      const std::size_t tile_end = extent == 0 ? part.columns.end : (column / extent + 1) * extent;
      const std::size_t end = std::min(tile_end, part.columns.end);
      visit(row - part.rows.begin, column - part.columns.begin, end - column,
            part.whole.tile_of(row, column));
      column = end;
    }
  }
}

bool is_on_device(const Tensor& x) { return has_streams(x.device().kind()); }

void expect_grid_type(DType dtype) {
  if (dtype == DType::kF16 || dtype == DType::kI32) {
    throw_unexpected_dtype(dtype, "f32, f64 or bf16");
  }
}

void expect_part(const Tensor& x, const GridPart& part) {
  ensure(x.numel() == part.rows.size() * part.columns.size(), "the elements of the part");
}

bool cut(const Range& range, std::size_t all, std::size_t tile) {
  if (range.size() == all) return false;
  return tile == 0 || range.size() % tile != 0;
}

template <class T>
std::array<T, 256> numbers_of(Fp8 format) {
  std::array<T, 256> numbers{};
  for (std::size_t code = 0; code < numbers.size(); ++code) {
    numbers[code] = static_cast<T>(f32_from_fp8(format, static_cast<std::uint8_t>(code)));
  }
  return numbers;
}

template <class T>
T stored(GridReal<T> number) {
  if constexpr (std::is_floating_point_v<T>) {
    return number;
  } else {
    return T{static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(number) >> 16U)};
  }
}

}  // namespace

bool GridPart::cuts_tiles() const {
  return cut(rows, whole.rows, whole.tile.rows) || cut(columns, whole.columns, whole.tile.columns);
}

Tensor amax_of(const Tensor& x, const GridPart& part) {
  expect_part(x, part);
  expect_grid_type(x.dtype());
  if (is_on_device(x)) return on_device::amax_of(x, part);
  Tensor amax = Tensor::zeros(x.device(), {part.whole.tiles()}, DType::kF32);
  dispatch_grid(x.dtype(), [&]<class T>() {
    const HostView<const T> numbers(x);
    const HostView<float> largest(amax, HostAccess::kReadWrite);
    for_runs(part, [&](std::size_t row, std::size_t column, std::size_t count, std::size_t tile) {
      const T* run = numbers.data() + row * part.columns.size() + column;
      largest[tile] = std::max(largest[tile], amax_of_run(run, count));
    });
  });
  return amax;
}

void scales_from_amax(const Tensor& amax, Fp8 format, int margin) {
  if (is_on_device(amax)) return on_device::scales_from_amax(amax, format, margin);
  const HostView<float> scales(amax, HostAccess::kReadWrite);
  for (float& scale : scales) scale = power_of_two_scale(scale, format, margin);
}

// [region on_grid]
Tensor on_grid(const Tensor& x, const GridPart& part, const Tensor& scales, Fp8 format) {
  expect_part(x, part);
  expect_grid_type(x.dtype());
  if (is_on_device(x)) return on_device::on_grid(x, part, scales, format);
  Tensor out = Tensor::empty(x.device(), x.shape(), x.dtype());
  const HostView<const float> scale(scales);
  dispatch_grid(x.dtype(), [&]<class T>() {
    const HostView<const T> numbers(x);
    const HostView<T> rounded(out, HostAccess::kWrite);
    dispatch_fp8(format, [&]<Fp8 fp8>() {
      for_runs(part, [&](std::size_t row, std::size_t column, std::size_t count, std::size_t tile) {
        const std::size_t first = row * part.columns.size() + column;
        round_run<fp8>(numbers.data() + first, rounded.data() + first, count, scale[tile]);
      });
    });
  });
  return out;
}
// [/region]

Tensor pack_codes(const Tensor& x, const GridPart& part, const Tensor& scales, Fp8 format) {
  expect_part(x, part);
  expect_grid_type(x.dtype());
  if (is_on_device(x)) return on_device::pack_codes(x, part, scales, format);
  const std::size_t words = ceil_div(part.columns.size(), kCodesOfWord);
  Tensor codes = Tensor::zeros(x.device(), x.shape().with(-1, words), DType::kI32);
  const HostView<const float> scale(scales);
  const HostView<std::int32_t> packed(codes, HostAccess::kReadWrite);
  auto* const bytes = reinterpret_cast<std::uint8_t*>(packed.data());
  dispatch_grid(x.dtype(), [&]<class T>() {
    const HostView<const T> numbers(x);
    dispatch_fp8(format, [&]<Fp8 fp8>() {
      for_runs(part, [&](std::size_t row, std::size_t column, std::size_t count, std::size_t tile) {
        pack_run<fp8>(numbers.data() + row * part.columns.size() + column,
                      bytes + row * words * kCodesOfWord + column, count, scale[tile]);
      });
    });
  });
  return codes;
}

Tensor unpack_codes(const Tensor& codes, const GridPart& part, const Tensor& scales, Fp8 format,
                    DType dtype) {
  expect_grid_type(dtype);
  if (is_on_device(codes)) return on_device::unpack_codes(codes, part, scales, format, dtype);
  Tensor x = Tensor::empty(codes.device(), codes.shape().with(-1, part.columns.size()), dtype);
  expect_part(x, part);
  const std::size_t row_bytes = codes.size(-1) * kCodesOfWord;
  const HostView<const float> scale(scales);
  const HostView<const std::int32_t> packed(codes);
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(packed.data());
  dispatch_grid(dtype, [&]<class T>() {
    const HostView<T> unpacked(x, HostAccess::kWrite);
    const auto numbers = numbers_of<GridReal<T>>(format);
    for_runs(part, [&](std::size_t row, std::size_t column, std::size_t count, std::size_t tile) {
      const std::uint8_t* run = bytes + row * row_bytes + column;
      T* out = unpacked.data() + row * part.columns.size() + column;
      const GridReal<T> down = GridReal<T>{1} / static_cast<GridReal<T>>(scale[tile]);
      for (std::size_t i = 0; i < count; ++i) out[i] = stored<T>(numbers[run[i]] * down);
    });
  });
  return x;
}

}  // namespace ultra::mixed_precision
