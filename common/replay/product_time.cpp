#include "common/replay/product_time.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace ultra::replay {
namespace {

/// A size of tile, and how fast it computes beside the largest.
struct Tile {
  double rows;
  double columns;
  double speed;
};

constexpr std::array<Tile, 4> kTiles = {
    {{256, 128, 1.0}, {128, 128, 0.95}, {128, 64, 0.8}, {64, 64, 0.6}}};

/// What a tile does before and behind its sum, as so many steps of k.
constexpr double kTileOverhead = 128;

double tiled_seconds(const GpuType& gpu, const ProductShape& shape, const Tile& tile,
                     double flops) {
  const double tiles = std::ceil(shape.m / tile.rows) * std::ceil(shape.n / tile.columns);
  const double waves = tiles / gpu.multiprocessors;
  // Tiles of several kernels mix at the end of a wave: half of what the last one lacks is lost.
  const double counted = waves <= 1 ? 1 : (waves + std::ceil(waves)) / 2;
  const double flop = 2 * tile.rows * tile.columns * (shape.k + kTileOverhead);
  return counted * flop * gpu.multiprocessors / (flops * gpu.efficiency.products * tile.speed);
}

/// The speed of a shape between measured ones: their mean, weighted by the distance of the logarithms
/// to the power of -6, so that those around it decide.
double measured_speed(const GpuType& gpu, const ProductShape& shape) {
  double weights = 0;
  double speeds = 0;
  for (const MeasuredProduct& measured : gpu.measured_products) {
    const double m = std::log(measured.m / shape.m);
    const double k = std::log(measured.k / shape.k);
    const double n = std::log(measured.n / shape.n);
    const double square = m * m + k * k + n * n;
    if (square == 0) return measured.flops;
    const double weight = 1 / (square * square * square);
    weights += weight;
    speeds += weight * measured.flops;
  }
  return speeds / weights;
}

}  // namespace

double product_seconds(const GpuType& gpu, const ProductShape& shape, double element_bytes,
                       double flops) {
  if (!gpu.measured_products.empty()) return shape.flop() / measured_speed(gpu, shape);
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) best = std::min(best, tiled_seconds(gpu, shape, tile, flops));
  const double bytes = element_bytes * (shape.m * shape.k + shape.k * shape.n + shape.m * shape.n);
  return std::max(best, bytes / (gpu.memory_bandwidth * gpu.efficiency.memory));
}

}  // namespace ultra::replay
