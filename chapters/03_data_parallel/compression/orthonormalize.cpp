#include <array>
#include <cmath>
#include <limits>

#include "chapters/03_data_parallel/compression/power_sgd.hpp"

namespace ultra::data_parallel {
namespace {

/// In f64 for both types, and in an order that no alignment changes: the same bits on all replicas.
template <class T>
double dot(std::span<const T> a, std::span<const T> b) {
  std::array<double, 8> sums{};
  std::size_t i = 0;
  for (; i + sums.size() <= a.size(); i += sums.size()) {
    for (std::size_t lane = 0; lane < sums.size(); ++lane) {
      sums[lane] += static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]);
    }
  }
  double sum = 0;
  for (; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  for (const double part : sums) sum += part;
  return sum;
}

template <class T>
double norm(std::span<const T> a) {
  return std::sqrt(dot(a, a));
}

/// Takes the directions of all of `units` out of `vector`, one after the other, and makes it a unit
/// vector; or zero when no more is left of it than rounding could have made.
template <class T>
void make_unit(std::span<T> vector, std::span<const T> units) {
  constexpr double kNoise = 100 * static_cast<double>(std::numeric_limits<T>::epsilon());
  const std::size_t length = vector.size();
  const double before = norm<T>(vector);
  for (std::size_t begin = 0; begin < units.size(); begin += length) {
    const std::span<const T> unit = units.subspan(begin, length);
    const T along = static_cast<T>(dot<T>(vector, unit));
    for (std::size_t i = 0; i < length; ++i) vector[i] -= along * unit[i];
  }
  const double left = norm<T>(vector);
  const bool noise = left <= kNoise * before;  // not so for NaN, which stays
  for (T& x : vector) x = noise ? T(0) : static_cast<T>(static_cast<double>(x) / left);
}

}  // namespace

// [region orthonormalize]
template <FloatingScalar T>
void orthonormalize(std::span<T> vectors, std::size_t count) {
  const std::size_t length = count == 0 ? 0 : vectors.size() / count;
  for (std::size_t v = 0; v < count; ++v) {
    const std::span<T> before = vectors.first(v * length);
    const std::span<T> vector = vectors.subspan(v * length, length);
    make_unit<T>(vector, before);
    make_unit<T>(vector, before);  // what the first pass's cancellation has left along `before`
  }
}
// [/region]

template void orthonormalize<float>(std::span<float>, std::size_t);
template void orthonormalize<double>(std::span<double>, std::size_t);

}  // namespace ultra::data_parallel
