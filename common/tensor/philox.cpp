#include "common/tensor/philox.hpp"

#include <type_traits>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/errors.hpp"
#include "common/base/interrupt.hpp"
#include "common/base/text.hpp"
#include "common/tensor/host_view.hpp"

namespace ultra {
namespace {

/// A user who stops the program waits for so many elements, a tenth of a second on one core.
constexpr std::size_t kElementsBetweenLooks = std::size_t{1} << 22;
/// Fewer are drawn sooner than a thread begins.
constexpr std::size_t kLeastOfAThread = std::size_t{1} << 16;

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

/// Elements of a part of a tensor, in order: runs of neighbours in the whole.
class Elements {
 public:
  Elements(const Shape& global_shape, std::span<const Range> shard)
      : strides_(contiguous_strides(global_shape)), shard_(shard) {}

  /// Neighbours from an element of the part on: the first one's index in the whole, and how many.
  [[nodiscard]] std::pair<std::uint64_t, std::size_t> run_at(std::size_t element) const {
    if (shard_.empty()) return {0, 1};
    std::uint64_t index = 0;
    std::size_t rest = element;
    for (std::size_t d = shard_.size(); d-- > 0;) {
      index += (shard_[d].begin + rest % shard_[d].size()) * strides_[static_cast<int>(d)];
      rest /= shard_[d].size();
    }
    const std::size_t columns = shard_.back().size();
    return {index, columns - element % columns};
  }

 private:
  Shape strides_;
  std::span<const Range> shard_;
};

/// Calls draw(begin, end) for the parts of [0, count), on all cores where they are worth it.
void draw_on_all_cores(std::size_t count,
                       const std::function<void(std::size_t, std::size_t)>& draw) {
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  for (std::size_t first = 0; first < count; first += kElementsBetweenLooks) {
    throw_if_interrupted();
    const std::size_t here = std::min(kElementsBetweenLooks, count - first);
    const std::size_t parts = std::clamp<std::size_t>(here / kLeastOfAThread, 1, cores);
    std::vector<std::jthread> others;
    for (std::size_t part = 1; part < parts; ++part) {
      others.emplace_back(draw, first + here * part / parts, first + here * (part + 1) / parts);
    }
    draw(first, first + here / parts);
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

std::array<double, 2> PhiloxStream::normal_pair(std::uint64_t pair) const {
  const auto [a, b] = words(pair);
  const double radius = std::sqrt(-2.0 * std::log(to_unit(a)));
  const double angle = 2.0 * std::numbers::pi * to_unit(b);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

double PhiloxStream::normal(std::uint64_t index) const { return normal_pair(index / 2)[index % 2]; }

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
  const Elements elements(global_shape, shard);
  dispatch_stored(out.dtype(), [&]<class T>() {
    using Compute = std::conditional_t<HalfScalar<T>, float, T>;
    const HostView<T> view(out, HostAccess::kWrite);
    const std::span<T> values = view.span();
    draw_on_all_cores(values.size(), [&](std::size_t begin, std::size_t end) {
      while (begin < end) {
        const auto [index, length] = elements.run_at(first + begin);
        const std::span<T> run = values.subspan(begin, std::min(length, end - begin));
        std::array<double, 2> pair{};
        for (std::size_t i = 0; i < run.size(); ++i) {
          if (i == 0 || (index + i) % 2 == 0) pair = stream.normal_pair((index + i) / 2);
          // By way of f32, so that two bytes hold the rounded f32 number of another precision.
          run[i] = number_as<T>(static_cast<Compute>(standard_deviation * pair[(index + i) % 2]));
        }
        begin += run.size();
      }
    });
  });
}

}  // namespace ultra
