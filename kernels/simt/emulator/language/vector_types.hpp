#pragma once
/// @file
/// CUDA's vector types and built-in variables, for the emulator: under CUDA's names, because kernels
/// use those.

#include <cstdint>

/// @brief Two floats, one 8-byte access.
struct alignas(8) float2 {
  /// @brief Element 0.
  float x;
  /// @brief Element 1.
  float y;
};

/// @brief Three floats, in three accesses.
struct float3 {
  /// @brief Element 0.
  float x;
  /// @brief Element 1.
  float y;
  /// @brief Element 2.
  float z;
};

/// @brief Four floats, one 16-byte access.
struct alignas(16) float4 {
  /// @brief Element 0.
  float x;
  /// @brief Element 1.
  float y;
  /// @brief Element 2.
  float z;
  /// @brief Element 3.
  float w;
};

/// @brief Two doubles, one 16-byte access.
struct alignas(16) double2 {
  /// @brief Element 0.
  double x;
  /// @brief Element 1.
  double y;
};

/// @brief Two ints, one 8-byte access.
struct alignas(8) int2 {
  /// @brief Element 0.
  int x;
  /// @brief Element 1.
  int y;
};

/// @brief Four ints, one 16-byte access.
struct alignas(16) int4 {
  /// @brief Element 0.
  int x;
  /// @brief Element 1.
  int y;
  /// @brief Element 2.
  int z;
  /// @brief Element 3.
  int w;
};

/// @brief Two unsigned ints, one 8-byte access.
struct alignas(8) uint2 {
  /// @brief Element 0.
  unsigned x;
  /// @brief Element 1.
  unsigned y;
};

/// @brief Three unsigned ints: what the built-in variables are.
struct uint3 {
  /// @brief Element 0.
  unsigned x;
  /// @brief Element 1.
  unsigned y;
  /// @brief Element 2.
  unsigned z;
};

/// @brief Four unsigned ints, one 16-byte access.
struct alignas(16) uint4 {
  /// @brief Element 0.
  unsigned x;
  /// @brief Element 1.
  unsigned y;
  /// @brief Element 2.
  unsigned z;
  /// @brief Element 3.
  unsigned w;
};

/// @brief A float2 of its elements.
constexpr float2 make_float2(float x, float y) { return {x, y}; }
/// @brief A float3 of its elements.
constexpr float3 make_float3(float x, float y, float z) { return {x, y, z}; }
/// @brief A float4 of its elements.
constexpr float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
/// @brief A double2 of its elements.
constexpr double2 make_double2(double x, double y) { return {x, y}; }
/// @brief An int2 of its elements.
constexpr int2 make_int2(int x, int y) { return {x, y}; }
/// @brief An int4 of its elements.
constexpr int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
/// @brief A uint2 of its elements.
constexpr uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
/// @brief A uint4 of its elements.
constexpr uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

/// @brief The running thread's index in its block.
inline constinit thread_local uint3 threadIdx{};
/// @brief The running block's index in the grid.
inline constinit thread_local uint3 blockIdx{};
/// @brief The extents of the block.
inline constinit thread_local uint3 blockDim{};
/// @brief The extents of the grid.
inline constinit thread_local uint3 gridDim{};

/// @brief Lanes of a warp.
inline constexpr int warpSize = 32;
