#pragma once
/// @file
/// Several elements in one access, and how a kernel is compiled for more than one length of it.
///
/// A row is read in accesses of 16 bytes only if it begins at a multiple of 16: kernels take the
/// length of an access as a template parameter, and the launcher gives 1 where a row's length
/// forbids more.

namespace ultra::simt {

/// @brief `width` elements that one access moves: `ldg(reinterpret_cast<const Pack<float,
/// 4>*>(&p[i]))` is a load of 16 bytes. Requires: width is a power of two; width x sizeof(T) is at
/// most 16.
template <typename T, int width>
struct alignas(sizeof(T) * static_cast<unsigned>(width)) Pack {
  /// @brief The elements.
  T values[static_cast<unsigned>(width)];
};

/// @brief Whether rows of `length` floats can be read four at a time: whether each begins at a
/// multiple of 16 bytes where the first one does.
constexpr bool has_aligned_rows(int length) { return length % 4 == 0; }

}  // namespace ultra::simt
