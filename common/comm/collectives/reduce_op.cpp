#include "common/comm/collectives/reduce_op.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "common/base/errors.hpp"

namespace ultra {

std::string_view to_string(ReduceOp op) {
  constexpr std::string_view kNames[] = {"sum", "max", "min", "average"};
  return kNames[static_cast<int>(op)];
}

}  // namespace ultra

namespace ultra::comm {
namespace {

// Elements combined before they are written out: stays in the first-level cache.
constexpr std::size_t kTile = 2048;

template <class T, class Fn>
void loop(T* __restrict into, const T* __restrict from, std::size_t count, Fn fn) {
  for (std::size_t i = 0; i < count; ++i) into[i] = fn(into[i], from[i]);
}

template <class T>
void combine_typed(ReduceOp op, T* into, const T* from, std::size_t count) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAverage:
      return loop(into, from, count, [](T a, T b) { return static_cast<T>(a + b); });
    case ReduceOp::kMax:
      return loop(into, from, count, [](T a, T b) { return a < b ? b : a; });
    case ReduceOp::kMin:
      return loop(into, from, count, [](T a, T b) { return b < a ? b : a; });
  }
}

template <class T>
void divide_typed(T* data, std::size_t count, int divisor) {
  const T by = static_cast<T>(divisor);
  for (std::size_t i = 0; i < count; ++i) data[i] = data[i] / by;
}

template <class T>
std::span<float> as_f32(std::span<const T> numbers, std::span<float> into) {
  convert(numbers, into.first(numbers.size()));
  return into.first(numbers.size());
}

/// Numbers of two bytes are combined in f32 and rounded once.
template <HalfScalar T>
void combine_typed(ReduceOp op, T* into, const T* from, std::size_t count) {
  alignas(64) std::array<float, kTile> sum;
  alignas(64) std::array<float, kTile> term;
  for (std::size_t begin = 0; begin < count; begin += kTile) {
    const std::span<T> tile(into + begin, std::min(kTile, count - begin));
    const std::span<float> result = as_f32<T>(tile, sum);
    const std::span<const T> other(from + begin, tile.size());
    combine_typed(op, result.data(), as_f32<T>(other, term).data(), tile.size());
    convert(std::span<const float>(result), tile);
  }
}

template <HalfScalar T>
void divide_typed(T* data, std::size_t count, int divisor) {
  alignas(64) std::array<float, kTile> numbers;
  for (std::size_t begin = 0; begin < count; begin += kTile) {
    const std::span<T> tile(data + begin, std::min(kTile, count - begin));
    const std::span<float> wide = as_f32<T>(tile, numbers);
    divide_typed(wide.data(), wide.size(), divisor);
    convert(std::span<const float>(wide), tile);
  }
}

/// All sources are summed in f32: the result is rounded once, however many there are.
template <HalfScalar T>
void combine_all_typed(ReduceOp op, std::span<void* const> into, std::span<const void* const> from,
                       std::size_t count) {
  alignas(64) std::array<float, kTile> sum;
  alignas(64) std::array<float, kTile> term;
  alignas(64) std::array<T, kTile> rounded;
  for (std::size_t begin = 0; begin < count; begin += kTile) {
    const std::size_t n = std::min(kTile, count - begin);
    const auto tile_of = [&](const void* source) {
      return std::span<const T>(static_cast<const T*>(source) + begin, n);
    };
    const std::span<float> result = as_f32<T>(tile_of(from[0]), sum);
    for (const void* source : from.subspan(1)) {
      combine_typed(op, result.data(), as_f32<T>(tile_of(source), term).data(), n);
    }
    if (op == ReduceOp::kAverage) divide_typed(result.data(), n, static_cast<int>(from.size()));
    convert(std::span<const float>(result), std::span<T>(rounded).first(n));
    for (void* target : into)
      std::memcpy(static_cast<T*>(target) + begin, rounded.data(), n * sizeof(T));
  }
}

template <class T>
void combine_all_typed(ReduceOp op, std::span<void* const> into, std::span<const void* const> from,
                       std::size_t count) {
  alignas(64) std::array<T, kTile> sum;
  for (std::size_t begin = 0; begin < count; begin += kTile) {
    const std::size_t n = std::min(kTile, count - begin);
    std::memcpy(sum.data(), static_cast<const T*>(from[0]) + begin, n * sizeof(T));
    for (const void* source : from.subspan(1)) {
      combine_typed(op, sum.data(), static_cast<const T*>(source) + begin, n);
    }
    if (op == ReduceOp::kAverage) divide_typed(sum.data(), n, static_cast<int>(from.size()));
    for (void* target : into)
      std::memcpy(static_cast<T*>(target) + begin, sum.data(), n * sizeof(T));
  }
}

template <class Fn>
void dispatch(DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::kF32:
      return fn.template operator()<float>();
    case DType::kF64:
      return fn.template operator()<double>();
    case DType::kI32:
      return fn.template operator()<std::int32_t>();
    case DType::kBF16:
      return fn.template operator()<BFloat16>();
    case DType::kF16:
      return fn.template operator()<Float16>();
  }
}

}  // namespace

void combine(const Combine& how, void* into, const void* from, std::size_t count) {
  dispatch(how.dtype, [&]<class T>() {
    combine_typed(how.op, static_cast<T*>(into), static_cast<const T*>(from), count);
  });
}

void combine_all(const Combine& how, std::span<void* const> into, std::span<const void* const> from,
                 std::size_t count) {
  ensure(!from.empty(), "a reduction has at least one source");
  dispatch(how.dtype, [&]<class T>() { combine_all_typed<T>(how.op, into, from, count); });
}

void divide(DType dtype, void* data, std::size_t count, int divisor) {
  dispatch(dtype, [&]<class T>() { divide_typed(static_cast<T*>(data), count, divisor); });
}

}  // namespace ultra::comm
