#pragma once
/// @file
/// Tensor-core tiles of 16 x 16 x 16, on every side: TileFragment, load_tile(), multiply_tiles(),
/// store_tile().

#if defined(__CUDACC__)
#include "kernels/simt/gpu/tile_operations.cuh"
#else
#include "kernels/simt/emulator/tile_operations.hpp"
#endif
