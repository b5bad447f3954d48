#include "chapters/10_mixed_precision/optimizer_states/dynamic_map.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/base/errors.hpp"

namespace ultra::mixed_precision {
namespace {

constexpr int kDecades = 7;

// [region map]
/// The middles of `steps` equal steps from a tenth of a power of ten to it.
std::vector<double> decade(int power, int steps) {
  std::vector<double> middles;
  const double step = 0.9 / steps;
  for (int i = 0; i < steps; ++i) {
    middles.push_back(std::pow(10.0, power) * (0.1 + (i + 0.5) * step));
  }
  return middles;
}

/// @param steps  of the lowest decade; each one above has twice as many.
std::vector<double> positive_numbers(int steps) {
  std::vector<double> numbers{1.0};
  for (int i = 0; i < kDecades; ++i) {
    const std::vector<double> more = decade(i - (kDecades - 1), steps << i);
    numbers.insert(numbers.end(), more.begin(), more.end());
  }
  return numbers;
}
// [/region]

DynamicMap map_of(std::vector<double> numbers) {
  numbers.push_back(0.0);
  std::ranges::sort(numbers);
  ensure(numbers.size() == kMapNumbers, "a number for each code");
  DynamicMap map{};
  std::ranges::transform(numbers, map.begin(), [](double x) { return static_cast<float>(x); });
  return map;
}

DynamicMap make_signed() {
  const std::vector<double> positive = positive_numbers(1);
  std::vector<double> all = positive;
  for (const double number : positive) {
    if (number < 1.0) all.push_back(-number);
  }
  return map_of(all);
}

}  // namespace

const DynamicMap& signed_map() {
  static const DynamicMap map = make_signed();
  return map;
}

const DynamicMap& unsigned_map() {
  static const DynamicMap map = map_of(positive_numbers(2));
  return map;
}

// A cell is narrower than the distance of two middles, so it has at most one of them in it.
NearestPlaces::NearestPlaces(const DynamicMap& map) {
  for (std::size_t place = 0; place + 1 < kMapNumbers; ++place) {
    middle_[place] = (map[place] + map[place + 1]) / 2;
  }
  middle_.back() = std::numeric_limits<float>::infinity();
  for (std::uint32_t cell = 0; cell < kCells; ++cell) {
    const auto nearer = std::bit_cast<float>((cell + kLowest) << kDropped);
    const auto further = std::bit_cast<float>(((cell + kLowest + 1) << kDropped) - 1);
    const auto place_of = [this](float x) {
      const auto above = std::ranges::lower_bound(middle_, x);
      return static_cast<std::uint8_t>(above - middle_.begin());
    };
    first_[cell] = cell == 0 ? place_of(0.0F) : place_of(nearer);
    first_[kCells + cell] = place_of(-further);
  }
}

}  // namespace ultra::mixed_precision
