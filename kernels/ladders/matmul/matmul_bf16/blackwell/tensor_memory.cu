// A product for Blackwell's data-centre GPUs (compute capability 10.0): compiled, never run.
//
// Idea:   sums leave the registers. A multiprocessor has 256 KiB of tensor memory, 128 lanes of 512
//         columns of 32 bits. One thread of a block issues tcgen05.mma: 128 rows by up to 256 columns,
//         operands from shared memory, sums in tensor memory. When its barrier says so, warps load
//         sums with tcgen05.ld, each the 32 lanes that are its own.
// Gain:   no warp holds sums or waits for a product: a block may have as many warps for an epilogue
//         as it likes, while the next tile is multiplied into other columns.
// Limit:  this one has no such second tile, no TMA and no pair of blocks (cta_group::2); it shows the
//         life of a tile. It is no rung of the ladder until a GPU has run it.
// Source: PTX ISA, "TensorCore 5th Generation Family Instructions".

#include "kernels/ladders/matmul/matmul_bf16/fetch.cuh"
#include "kernels/ladders/matmul/matmul_bf16/matmul_bf16.hpp"

namespace ultra::kernels::matmul_bf16 {
namespace {

constexpr int kTile = 128;  // rows and columns
constexpr int BK = kRowUnits * kUnit;
constexpr int kThreads = 128;
constexpr int kStages = 3;
constexpr int kTileUnits = kTile * kRowUnits;

// Bits of tcgen05.mma's instruction descriptor: sums in fp32, factors in bf16, a tile of 128 x 128.
constexpr unsigned kInstruction =
    1U << 4 | 1U << 7 | 1U << 10 | unsigned{kTile / 8} << 17 | unsigned{kTile / 16} << 24;

__device__ __forceinline__ unsigned shared_address(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

// A tile of rows of 128 bytes, swizzled over 128 bytes: 8 rows are 1024 bytes.
__device__ __forceinline__ unsigned long long descriptor_of(const void* tile) {
  const unsigned long long address = (shared_address(tile) & 0x3ffffU) >> 4;
  constexpr unsigned long long kBetweenEightRows = 1024 >> 4;
  constexpr unsigned long long kVersion = 1;     // of Blackwell
  constexpr unsigned long long kSwizzle128 = 2;  // of 128 bytes
  return address | 1ULL << 16 | kBetweenEightRows << 32 | kVersion << 46 | kSwizzle128 << 61;
}

__device__ __forceinline__ void multiply(unsigned sums, unsigned long long left,
                                         unsigned long long right, bool is_first) {
  asm volatile(
      "{.reg .pred adds;\n"
      "setp.eq.u32 adds, %4, 0;\n"
      "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, adds;}" ::"r"(sums),
      "l"(left), "l"(right), "r"(kInstruction), "r"(static_cast<unsigned>(is_first))
      : "memory");
}

// The barrier completes a phase when all products that this thread has issued are done.
__device__ __forceinline__ void arrive_after_products(unsigned long long* barrier) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(
                   shared_address(barrier))
               : "memory");
}

__device__ __forceinline__ void wait_for(unsigned long long* barrier, unsigned parity) {
  asm volatile(
      "{.reg .pred done;\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}

// Columns of tensor memory for a tile, and barriers for the stages. The whole block calls it.
__device__ __forceinline__ unsigned prepare(unsigned* columns, unsigned long long* done) {
  if (threadIdx.x < 32) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(
                     shared_address(columns)),
                 "n"(kTile)
                 : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
  }
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&done[stage])));
    }
  }
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
  __syncthreads();  // else others use columns and barriers that are not there yet
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
  return *columns;
}

// Four products of 16 along the depth, each 32 bytes further in both tiles' rows.
__device__ __forceinline__ void multiply_stage(unsigned sums, const uint4* left, const uint4* right,
                                               bool is_first) {
#pragma unroll
  for (int part = 0; part < kSteps; ++part) {
    multiply(sums, descriptor_of(left) + part * 2, descriptor_of(right) + part * 2,
             is_first && part == 0);
  }
}

// Sixteen columns of this lane's row: warp w has lanes 32 w to 32 w + 31 of tensor memory.
__device__ __forceinline__ void load_sums(float (&sums)[16], unsigned address) {
  unsigned bits[16];
  asm volatile(
      "tcgen05.ld.sync.aligned.32x32b.x16.b32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
      "%12, %13, %14, %15}, [%16];"
      : "=r"(bits[0]), "=r"(bits[1]), "=r"(bits[2]), "=r"(bits[3]), "=r"(bits[4]), "=r"(bits[5]),
        "=r"(bits[6]), "=r"(bits[7]), "=r"(bits[8]), "=r"(bits[9]), "=r"(bits[10]), "=r"(bits[11]),
        "=r"(bits[12]), "=r"(bits[13]), "=r"(bits[14]), "=r"(bits[15])
      : "r"(address));
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    sums[i] = __uint_as_float(bits[i]);
  }
}

// [region tensor_memory]
__global__ void __launch_bounds__(kThreads) tensor_memory_kernel(const Problem problem) {
  __shared__ unsigned columns;
  __shared__ unsigned long long done[kStages];  // a stage's products
  auto* const stages = reinterpret_cast<uint4*>(
      (reinterpret_cast<std::size_t>(dynamic_shared<unsigned char>()) + 1023) / 1024 * 1024);
  const int row = blockIdx.x * kTile;
  const int column = blockIdx.y * kTile;
  const int steps = (problem.depth + BK - 1) / BK;
  const auto fetch = [&](int step) {
    uint4* const stage = stages + step % kStages * 2 * kTileUnits;
    if (step < steps) {
      fetch_tile<kTile, kThreads>(stage, problem.a, row, problem.rows, step * BK, problem.depth);
      fetch_tile<kTile, kThreads>(stage + kTileUnits, problem.b, column, problem.columns, step * BK,
                                  problem.depth);
    }
    commit_copies();
  };
  const unsigned sums = prepare(&columns, done);
  for (int step = 0; step < kStages - 1; ++step) {
    fetch(step);
  }
  for (int step = 0; step < steps; ++step) {
    wait_copies<kStages - 2>();
    asm volatile("fence.proxy.async.shared::cta;" ::
                     : "memory");  // else tensor cores may not see them
    __syncthreads();               // this step's copies have landed for all
    if (threadIdx.x == 0) {
      const uint4* const stage = stages + step % kStages * 2 * kTileUnits;
      multiply_stage(sums, stage, stage + kTileUnits, step == 0);
      arrive_after_products(&done[step % kStages]);
    }
    if (step > 0) {  // the stage that is filled next has been read by the products before
      wait_for(&done[(step - 1) % kStages], (step - 1) / kStages % 2);
    }
    fetch(step + kStages - 1);
  }
  wait_for(&done[(steps - 1) % kStages], (steps - 1) / kStages % 2);
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
  const int own_row = row + static_cast<int>(threadIdx.x);
  for (int first = 0; first < kTile; first += 16) {
    float values[16];
    load_sums(values, sums + (threadIdx.x / 32 * 32 << 16) + first);
#pragma unroll
    for (int i = 0; i < 16; i += 2) {
      store_pair(problem.c, own_row, column + first + i, problem.rows, problem.columns, values[i],
                 values[i + 1]);
    }
  }
  asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
  __syncthreads();  // else the columns are given back while a warp loads from them
  if (threadIdx.x < 32) {
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(sums), "n"(kTile));
  }
}
// [/region]

}  // namespace
}  // namespace ultra::kernels::matmul_bf16
