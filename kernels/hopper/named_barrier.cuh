#pragma once
/// @file
/// The block's 16 barriers of the hardware, for a part of its warps: wait_at_named() and
/// arrive_at_named(), on every side. Barrier 0 is __syncthreads(). Each opens when as many threads have
/// come as its callers say, and begins anew. Source: PTX ISA, "bar".

#include "kernels/simt/simt.cuh"

#if defined(__CUDACC__)
#include "kernels/hopper/gpu/named_barrier.cuh"
#else
#include "kernels/hopper/emulator/named_barrier.hpp"
#endif
