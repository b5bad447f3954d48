#pragma once
/// @file
/// CUDA's words for kernels on Hopper, for the host's compiler: these macros are CUDA's.

/// @brief A parameter that engines may read where it lies.
#define __grid_constant__
/// @brief The blocks of a cluster; launch_clusters() says it to the emulator.
#define __cluster_dims__(...)
