#include "chapters/10_mixed_precision/optimizer_states/int8_moments.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"
#include "common/tensor/host_view.hpp"

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

DynamicMap sorted_map(std::vector<double> numbers) {
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
  return sorted_map(all);
}

constexpr std::size_t kCodesInWord = 4;

const DynamicMap& map_of(optim::Signs signs) {
  return signs == optim::Signs::kBoth ? signed_map() : unsigned_map();
}

const NearestPlaces& places_of(optim::Signs signs) {
  static const NearestPlaces first(signed_map());
  static const NearestPlaces second(unsigned_map());
  return signs == optim::Signs::kBoth ? first : second;
}

/// The number of largest magnitude, with its sign; NaN when one is not finite.
float scale_of(std::span<const float> block) {
  float highest = 0.0F;
  float lowest = 0.0F;
  float nothing = 0.0F;  // NaN as soon as 0 times a number is
#pragma omp simd reduction(max : highest) reduction(min : lowest) reduction(+ : nothing)
  for (std::size_t i = 0; i < block.size(); ++i) {
    const float x = block[i];
    highest = x > highest ? x : highest;
    lowest = x < lowest ? x : lowest;
    nothing += 0.0F * x;
  }
  return (highest >= -lowest ? highest : lowest) + nothing;
}

/// The codes of a block, none of which is 0 for a second moment that is not.
void codes_of(std::span<const float> block, optim::Signs signs, float scale, std::uint8_t* codes) {
  const NearestPlaces& places = places_of(signs);
  const bool above_zero = signs == optim::Signs::kNonNegative;
  for (std::size_t i = 0; i < block.size(); ++i) {
    const float share = scale == 0.0F ? 0.0F : block[i] / scale;
    const std::uint8_t place = places(share);
    codes[i] = above_zero && share > 0.0F ? std::max<std::uint8_t>(place, 1) : place;
  }
}

class Int8Moment : public StoredState {
 public:
  Int8Moment(const Device& device, std::size_t elements, optim::Signs signs, std::size_t block)
      : elements_(elements),
        signs_(signs),
        block_(block),
        codes_(Tensor::empty(device, {ceil_div(elements, kCodesInWord)}, DType::kI32,
                             MemoryCategory::kOptimizer)),
        scales_(Tensor::empty(device, {ceil_div(elements, block)}, DType::kF32,
                              MemoryCategory::kOptimizer)) {
    store(Tensor::zeros(device, {elements}, DType::kF32));
  }

  void store(const Tensor& values) override {
    const Tensor wide = cast(values, DType::kF32);
    const HostView<const float> numbers(wide);
    const HostView<std::int32_t> codes(codes_, HostAccess::kWrite);
    const HostView<float> scales(scales_, HostAccess::kWrite);
    quantize_moment(numbers.span(), signs_, block_, bytes_of<std::uint8_t>(codes), scales.span());
  }

  void load(const Tensor& values) const override {
    if (values.dtype() == DType::kF32) return load_f32(values);
    const Tensor numbers = Tensor::empty(values.device(), values.shape(), DType::kF32);
    load_f32(numbers);
    cast_into(values, numbers);
  }

 private:
  void load_f32(const Tensor& values) const {
    const HostView<const std::int32_t> codes(codes_);
    const HostView<const float> scales(scales_);
    const HostView<float> numbers(values, HostAccess::kWrite);
    dequantize_moment(bytes_of<const std::uint8_t>(codes), scales.span(), signs_, block_,
                      numbers.span());
  }

  template <class Byte, class Word>
  [[nodiscard]] std::span<Byte> bytes_of(const HostView<Word>& codes) const {
    return {reinterpret_cast<Byte*>(codes.data()), elements_};
  }

  std::size_t elements_;
  optim::Signs signs_;
  std::size_t block_;
  Tensor codes_;   // four to a word
  Tensor scales_;  // of the blocks
};

}  // namespace

const DynamicMap& signed_map() {
  static const DynamicMap map = make_signed();
  return map;
}

const DynamicMap& unsigned_map() {
  static const DynamicMap map = sorted_map(positive_numbers(2));
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

// [region quantize]
void quantize_moment(std::span<const float> x, optim::Signs signs, std::size_t block,
                     std::span<std::uint8_t> codes, std::span<float> scales) {
  for (std::size_t begin = 0; begin < x.size(); begin += block) {
    const std::span<const float> numbers = x.subspan(begin, std::min(block, x.size() - begin));
    const float scale = scale_of(numbers);
    scales[begin / block] = scale;
    codes_of(numbers, signs, scale, codes.data() + begin);
  }
}

void dequantize_moment(std::span<const std::uint8_t> codes, std::span<const float> scales,
                       optim::Signs signs, std::size_t block, std::span<float> x) {
  const DynamicMap& map = map_of(signs);
  for (std::size_t begin = 0; begin < x.size(); begin += block) {
    const float scale = scales[begin / block];
    const std::size_t end = std::min(begin + block, x.size());
    for (std::size_t i = begin; i < end; ++i) x[i] = map[codes[i]] * scale;
  }
}
// [/region]

std::size_t int8_moment_bytes(std::size_t elements, std::size_t block) {
  return 2 * (round_up(elements, kCodesInWord) + sizeof(float) * ceil_div(elements, block));
}

std::unique_ptr<optim::StateStore> int8_moments(std::size_t block) {
  ensure(block > 0, "blocks of at least one number");
  return stored_states(
      [block](const Device& device, std::size_t elements, const optim::StateSpec& spec) {
        return std::make_unique<Int8Moment>(device, elements, spec.signs, block);
      });
}

}  // namespace ultra::mixed_precision
