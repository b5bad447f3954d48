// A thread for each element, or for each 16 bytes of them where both views have them side by side: it
// finds their places by dividing its number by the extents, in 32 bits where these are enough.

#include "kernels/generic/elements/copy.hpp"

#include <cstdint>
#include <limits>

#include "kernels/generic/numbers.cuh"

namespace ultra::kernels::generic {
namespace {

using namespace simt;

// Where an element is in two views of the same extents.
struct Places {
  std::size_t to;
  std::size_t from;
};

template <typename Index>
__device__ __forceinline__ Places places(const Layout& to, const Layout& from, std::size_t number) {
  if (to.rank == 0) {
    return {.to = 0, .from = 0};
  }
  Index index = static_cast<Index>(number);
  Places found{.to = 0, .from = 0};
#pragma unroll
  for (int dim = kMostDimensions - 1; dim > 0; --dim) {
    if (dim < to.rank) {
      const Index extent = static_cast<Index>(to.extents[dim]);
      const Index rest = index / extent;
      const std::size_t along = index - rest * extent;
      found.to += along * to.strides[dim];
      found.from += along * from.strides[dim];
      index = rest;
    }
  }
  return {.to = found.to + index * to.strides[0], .from = found.from + index * from.strides[0]};
}

__device__ __forceinline__ std::size_t place(const Layout& layout, std::size_t index) {
  std::size_t offset = 0;
#pragma unroll
  for (int dim = kMostDimensions - 1; dim > 0; --dim) {
    if (dim < layout.rank) {
      offset += index % layout.extents[dim] * layout.strides[dim];
      index /= layout.extents[dim];
    }
  }
  return layout.rank == 0 ? 0 : offset + index * layout.strides[0];
}

__global__ void fill_kernel(Target to, Layout layout, double value, std::size_t count) {
  const std::size_t index = global_thread();
  if (index < count) {
    store(to, place(layout, index), value);
  }
}

__global__ void fill_integer_kernel(std::int32_t* to, Layout layout, std::int32_t value,
                                    std::size_t count) {
  const std::size_t index = global_thread();
  if (index < count) {
    stg(&to[place(layout, index)], value);
  }
}

template <typename Bits, typename Index>
__global__ void copy_kernel(Bits* to, Layout to_layout, const Bits* from, Layout from_layout,
                            std::size_t count) {
  const std::size_t index = global_thread();
  if (index < count) {
    const Places at = places<Index>(to_layout, from_layout, index);
    const Bits bits = ldg(&from[at.from]);
    stg(&to[at.to], bits);
  }
}

template <typename Sum>
__global__ void convert_kernel(Target to, Layout to_layout, Source from, Layout from_layout,
                               std::size_t count) {
  const std::size_t index = global_thread();
  if (index < count) {
    const Places at = places<std::size_t>(to_layout, from_layout, index);
    store(to, at.to, load<Sum>(from, at.from));
  }
}

// Whether dimension `dim` of a view continues the one before it without a gap.
bool continues(const Layout& layout, int dim) {
  return layout.strides[dim - 1] == layout.strides[dim] * layout.extents[dim];
}

// Drops a dimension, whose indices the one before it takes over.
void merge(Layout& layout, int dim) {
  layout.extents[dim - 1] *= layout.extents[dim];
  layout.strides[dim - 1] = layout.strides[dim];
  for (int next = dim + 1; next < layout.rank; ++next) {
    layout.extents[next - 1] = layout.extents[next];
    layout.strides[next - 1] = layout.strides[next];
  }
  --layout.rank;
}

// Divisions take longer than the copy: fewer dimensions, fewer of them.
void simplify(Layout& left, Layout& right) {
  for (int dim = left.rank - 1; dim > 0; --dim) {
    if (continues(left, dim) && continues(right, dim)) {
      merge(left, dim);
      merge(right, dim);
    }
  }
}

// Whether pieces of `width` elements, `bytes` together, are pieces of a view, too, at multiples of so
// many bytes.
bool has_pieces(const Layout& layout, const void* first, std::size_t width, std::size_t bytes) {
  const int last = layout.rank - 1;
  bool fits = layout.strides[last] == 1 && layout.extents[last] % width == 0 &&
              reinterpret_cast<std::uintptr_t>(first) % bytes == 0;
  for (int dim = 0; dim < last; ++dim) {
    fits = fits && layout.strides[dim] % width == 0;
  }
  return fits;
}

// A view in pieces of `width` elements.
Layout in_pieces(Layout layout, std::size_t width) {
  const int last = layout.rank - 1;
  layout.extents[last] /= width;
  for (int dim = 0; dim < last; ++dim) {
    layout.strides[dim] /= width;
  }
  return layout;
}

template <typename Bits>
void copy_bits(const Target& to, const Layout& to_layout, const Source& from,
               const Layout& from_layout, const Queue& queue) {
  const std::size_t count = to_layout.count();
  launch_each(count <= std::numeric_limits<std::uint32_t>::max() ? copy_kernel<Bits, std::uint32_t>
                                                                 : copy_kernel<Bits, std::uint64_t>,
              "copy", count, queue, static_cast<Bits*>(to.data), to_layout,
              static_cast<const Bits*>(from.data), from_layout, count);
}

// The same in pieces of 16 bytes, where both views have them.
template <typename Bits>
void copy_pieces(const Target& to, const Layout& to_layout, const Source& from,
                 const Layout& from_layout, const Queue& queue) {
  constexpr std::size_t kWidth = sizeof(uint4) / sizeof(Bits);
  if (to_layout.rank > 0 && has_pieces(to_layout, to.data, kWidth, sizeof(uint4)) &&
      has_pieces(from_layout, from.data, kWidth, sizeof(uint4))) {
    return copy_bits<uint4>(to, in_pieces(to_layout, kWidth), from, in_pieces(from_layout, kWidth),
                            queue);
  }
  copy_bits<Bits>(to, to_layout, from, from_layout, queue);
}

}  // namespace

template <>
void fill<kExecutor>(const Target& to, const Layout& layout, double value, const Queue& queue) {
  Layout simple = layout;
  Layout same = layout;
  simplify(simple, same);
  if (to.number == Number::kI32) {
    const auto integer = static_cast<std::int32_t>(value);
    launch_each(fill_integer_kernel, "fill", simple.count(), queue,
                static_cast<std::int32_t*>(to.data), simple, integer, simple.count());
    return;
  }
  launch_each(fill_kernel, "fill", simple.count(), queue, to, simple, value, simple.count());
}

template <>
void copy<kExecutor>(const Target& to, const Layout& to_layout, const Source& from,
                     const Layout& from_layout, const Queue& queue) {
  Layout target = to_layout;
  Layout source = from_layout;
  simplify(target, source);
  if (to.number != from.number) {
    const bool is_wide = sums_in_f64(to.number) || sums_in_f64(from.number);
    launch_each(is_wide ? convert_kernel<double> : convert_kernel<float>, "convert", target.count(),
                queue, to, target, from, source, target.count());
  } else if (size_of(to.number) == 2) {
    copy_pieces<std::uint16_t>(to, target, from, source, queue);
  } else if (size_of(to.number) == 4) {
    copy_pieces<std::uint32_t>(to, target, from, source, queue);
  } else {
    copy_pieces<std::uint64_t>(to, target, from, source, queue);
  }
}

}  // namespace ultra::kernels::generic
