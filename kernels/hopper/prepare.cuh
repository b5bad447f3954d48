#pragma once
/// @file
/// What the launchers of Hopper's rungs do on the host, on every side: refuse what they cannot do,
/// describe matrices to TMA, count multiprocessors, launch clusters.

#if defined(__CUDACC__)
#include "kernels/hopper/gpu/prepare.cuh"
#else
#include "kernels/hopper/emulator/prepare.hpp"
#endif
