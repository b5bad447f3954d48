#include "common/tensor/philox.hpp"

#include <type_traits>

#include <fmt/format.h>

#include <cmath>
#include <numbers>
#include <vector>

#include "common/base/errors.hpp"
#include "common/base/interrupt.hpp"
#include "common/base/text.hpp"
#include "common/tensor/host_view.hpp"

namespace ultra {
namespace {

/// A large model takes minutes: a user who stops the program waits for so many elements, some
/// milliseconds.
constexpr std::size_t kElementsBetweenLooks = std::size_t{1} << 16;

std::array<std::uint32_t, 2> multiply_wide(std::uint32_t a, std::uint32_t b) {
  const std::uint64_t product = static_cast<std::uint64_t>(a) * b;
  return {static_cast<std::uint32_t>(product >> 32), static_cast<std::uint32_t>(product)};
}

/// 53 random bits as a double strictly between 0 and 1.
double to_unit(std::uint64_t word) { return (static_cast<double>(word >> 11) + 0.5) * 0x1.0p-53; }

void expect_part(const Shape& global_shape, std::span<const Range> shard) {
  if (shard.size() != global_shape.rank()) {
    throw ShapeError(fmt::format("a shard of {} dimensions does not fit shape {}", shard.size(),
                                 global_shape.str()));
  }
  for (std::size_t d = 0; d < shard.size(); ++d) {
    const std::size_t extent = global_shape[static_cast<int>(d)];
    if (shard[d].begin <= shard[d].end && shard[d].end <= extent) continue;
    throw ShapeError(fmt::format("shard [{}, {}) of dimension {} does not fit {}", shard[d].begin,
                                 shard[d].end, d, global_shape.str()));
  }
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                        std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const auto [hi0, lo0] = multiply_wide(0xD2511F53U, counter[0]);
    const auto [hi1, lo1] = multiply_wide(0xCD9E8D57U, counter[2]);
    counter = {hi1 ^ counter[1] ^ key[0], lo1, hi0 ^ counter[3] ^ key[1], lo0};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

PhiloxStream::PhiloxStream(std::uint64_t seed, std::string_view name)
    : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)},
      name_hash_(stable_hash(name)) {}

std::array<std::uint64_t, 2> PhiloxStream::words(std::uint64_t block) const {
  const auto w = philox4x32(
      {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
       static_cast<std::uint32_t>(name_hash_), static_cast<std::uint32_t>(name_hash_ >> 32)},
      key_);
  return {(static_cast<std::uint64_t>(w[0]) << 32) | w[1],
          (static_cast<std::uint64_t>(w[2]) << 32) | w[3]};
}

double PhiloxStream::normal(std::uint64_t index) const {
  const auto [a, b] = words(index / 2);
  const double radius = std::sqrt(-2.0 * std::log(to_unit(a)));
  const double angle = 2.0 * std::numbers::pi * to_unit(b);
  return index % 2 == 0 ? radius * std::cos(angle) : radius * std::sin(angle);
}

double PhiloxStream::uniform(std::uint64_t index) const {
  return to_unit(words(index / 2)[index % 2]);
}

std::uint64_t PhiloxStream::below(std::uint64_t index, std::uint64_t bound) const {
  ensure(bound > 0, "below() needs a positive bound");
  // 64 bits modulo a bound of less than 2^32 in practice: the bias is below 2^-32.
  return words(index / 2)[index % 2] % bound;
}

void fill_normal(const Tensor& out, const Shape& global_shape, std::span<const Range> shard,
                 const PhiloxStream& stream, double standard_deviation) {
  expect_part(global_shape, shard);
  if (out.shape().rank() != shard.size()) {
    throw ShapeError(fmt::format("a shard of {} dimensions does not fit into {}", shard.size(),
                                 out.shape().str()));
  }
  for (std::size_t d = 0; d < shard.size(); ++d) {
    if (shard[d].size() == out.size(static_cast<int>(d))) continue;
    throw ShapeError(fmt::format("shard [{}, {}) of dimension {} does not fit into {}",
                                 shard[d].begin, shard[d].end, d, out.shape().str()));
  }
  fill_normal_elements(out, 0, global_shape, shard, stream, standard_deviation);
}

void fill_normal_elements(const Tensor& out, std::size_t first, const Shape& global_shape,
                          std::span<const Range> shard, const PhiloxStream& stream,
                          double standard_deviation) {
  expect_part(global_shape, shard);
  std::size_t count = 1;
  for (const Range& range : shard) count *= range.size();
  if (first > count || out.numel() > count - first) {
    throw ShapeError(fmt::format("elements [{}, {}) are not in a shard of {} elements", first,
                                 first + out.numel(), count));
  }
  if (!has_numbers(out.device().kind())) return;
  const Shape global_strides = contiguous_strides(global_shape);
  dispatch_stored(out.dtype(), [&]<class T>() {
    using Compute = std::conditional_t<HalfScalar<T>, float, T>;
    const HostView<T> view(out, HostAccess::kWrite);
    const std::span<T> values = view.span();
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (i % kElementsBetweenLooks == 0) throw_if_interrupted();
      std::size_t rest = first + i;
      std::uint64_t global_index = 0;
      for (int d = static_cast<int>(shard.size()) - 1; d >= 0; --d) {
        const Range& range = shard[static_cast<std::size_t>(d)];
        global_index += (range.begin + rest % range.size()) * global_strides[d];
        rest /= range.size();
      }
      // By way of f32, so that two bytes hold the rounded f32 number of another precision.
      values[i] =
          number_as<T>(static_cast<Compute>(standard_deviation * stream.normal(global_index)));
    }
  });
}

}  // namespace ultra
