#include "chapters/10_mixed_precision/fp8/device/grid_on_device.hpp"

#include <algorithm>

#include "chapters/10_mixed_precision/fp8/grid_rounding.hpp"
#include "common/base/numeric.hpp"
#include "common/ops/backend/gpu/operands.hpp"

namespace ultra::mixed_precision::on_device {
namespace {

namespace generic = kernels::generic;
using ops::gpu::elements;
using ops::gpu::launch;
using ops::gpu::source;
using ops::gpu::target;

/// Extents of 0 stand for all of a dimension.
std::size_t extent_of(std::size_t tile, std::size_t all) {
  return std::max<std::size_t>(tile == 0 ? all : tile, 1);
}

generic::TiledPart tiles_of(const GridPart& part) {
  const TileGrid& whole = part.whole;
  return {.rows = part.rows.size(),
          .columns = part.columns.size(),
          .first_row = part.rows.begin,
          .first_column = part.columns.begin,
          .tile_rows = extent_of(whole.tile.rows, whole.rows),
          .tile_columns = extent_of(whole.tile.columns, whole.columns),
          .tiles_of_row = whole.tile_columns(),
          .tiles = whole.tiles()};
}

template <Fp8 format>
generic::Fp8Format figures() {
  using Figures = Fp8Figures<format>;
  return {.fraction_bits = Figures::kFractionBits,
          .bias = Figures::kBias,
          .largest = static_cast<float>(Figures::kLargest)};
}

generic::Fp8Format figures_of(Fp8 format) {
  return format == Fp8::kE4m3 ? figures<Fp8::kE4m3>() : figures<Fp8::kE5m2>();
}

std::int32_t* words_of(const Tensor& codes) { return elements<std::int32_t>(codes); }

}  // namespace

Tensor amax_of(const Tensor& x, const GridPart& part) {
  const generic::TiledPart tiles = tiles_of(part);
  Tensor amax = Tensor::empty(x.device(), {tiles.tiles}, DType::kF32);
  const Tensor of_rows = Tensor::empty(
      x.device(), {std::max<std::size_t>(tiles.rows * tiles.tiles_of_row, 1)}, DType::kF32);
  const auto launched = launch("fp8_amax", {x}, {amax, of_rows});
  launched.kernels().amax_of_tiles(tiles, elements<float>(amax), source(x),
                                   elements<float>(of_rows), launched.queue());
  return amax;
}

void scales_from_amax(const Tensor& amax, Fp8 format, int margin) {
  const auto launched = launch("fp8_scales", {amax}, {amax});
  launched.kernels().power_of_two_scales(elements<float>(amax), amax.numel(), figures_of(format),
                                         margin, launched.queue());
}

void delayed_scale(const Tensor& amax, const Tensor& history, Fp8 format, int margin, bool notes) {
  const auto launched = launch("fp8_history", {amax, history}, {amax, history});
  launched.kernels().scale_from_history(elements<float>(amax), elements<float>(history),
                                        history.numel(), figures_of(format), margin, notes,
                                        launched.queue());
}

Tensor on_grid(const Tensor& x, const GridPart& part, const Tensor& scales, Fp8 format) {
  Tensor out = Tensor::empty(x.device(), x.shape(), x.dtype());
  const auto launched = launch("fp8_grid", {x, scales}, {out});
  launched.kernels().round_to_grid(tiles_of(part), target(out), source(x), elements<float>(scales),
                                   figures_of(format), launched.queue());
  return out;
}

Tensor pack_codes(const Tensor& x, const GridPart& part, const Tensor& scales, Fp8 format) {
  const std::size_t words = ceil_div(part.columns.size(), kCodesOfWord);
  Tensor codes = Tensor::empty(x.device(), x.shape().with(-1, words), DType::kI32);
  const auto launched = launch("fp8_pack", {x, scales}, {codes});
  launched.kernels().pack_fp8(tiles_of(part), words_of(codes), words, source(x),
                              elements<float>(scales), figures_of(format), launched.queue());
  return codes;
}

Tensor unpack_codes(const Tensor& codes, const GridPart& part, const Tensor& scales, Fp8 format,
                    DType dtype) {
  Tensor x = Tensor::empty(codes.device(), codes.shape().with(-1, part.columns.size()), dtype);
  const auto launched = launch("fp8_unpack", {codes, scales}, {x});
  launched.kernels().unpack_fp8(tiles_of(part), target(x), words_of(codes), codes.size(-1),
                                elements<float>(scales), figures_of(format), launched.queue());
  return x;
}

}  // namespace ultra::mixed_precision::on_device
