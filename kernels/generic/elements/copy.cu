// A thread for each element: it finds its place in both views by dividing its number by the extents.

#include "kernels/generic/elements/copy.hpp"

#include <cstdint>

#include "kernels/generic/numbers.cuh"

namespace ultra::kernels::generic {
namespace {

using namespace simt;

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

template <typename Bits>
__global__ void copy_kernel(Bits* to, Layout to_layout, const Bits* from, Layout from_layout,
                            std::size_t count) {
  const std::size_t index = global_thread();
  if (index < count) {
    const Bits bits = ldg(&from[place(from_layout, index)]);
    stg(&to[place(to_layout, index)], bits);
  }
}

template <typename Sum>
__global__ void convert_kernel(Target to, Layout to_layout, Source from, Layout from_layout,
                               std::size_t count) {
  const std::size_t index = global_thread();
  if (index < count) {
    store(to, place(to_layout, index), load<Sum>(from, place(from_layout, index)));
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

template <typename Bits>
void copy_bits(const Target& to, const Layout& to_layout, const Source& from,
               const Layout& from_layout, const Queue& queue) {
  launch_each(copy_kernel<Bits>, "copy", to_layout.count(), queue, static_cast<Bits*>(to.data),
              to_layout, static_cast<const Bits*>(from.data), from_layout, to_layout.count());
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
    copy_bits<std::uint16_t>(to, target, from, source, queue);
  } else if (size_of(to.number) == 4) {
    copy_bits<std::uint32_t>(to, target, from, source, queue);
  } else {
    copy_bits<std::uint64_t>(to, target, from, source, queue);
  }
}

}  // namespace ultra::kernels::generic
