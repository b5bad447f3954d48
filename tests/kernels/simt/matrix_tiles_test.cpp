// ldmatrix and mma.sync: who gets which element, and what a load costs the banks of shared memory.
// Covers: kernels/simt/matrix_tiles.cuh

#include "kernels/simt/matrix_tiles.cuh"

#include <gtest/gtest.h>

#include <vector>

#include "kernels/simt/async_copy.cuh"
#include "tests/kernels/simt/kernels/kernels.hpp"
#include "tests/kernels/simt/support.hpp"

namespace ultra::simt::test {
namespace matrix_tiles_test {

// Element (row, column) of matrix m is the number 64 m + 8 row + column.
template <typename Load, int matrices>
__device__ void store_registers(unsigned* out, const Load& load) {
  __shared__ __align__(16) std::uint16_t numbers[32][8];
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = 0; i < 8; ++i) {
    sts(&numbers[lane][i], static_cast<std::uint16_t>(lane * 8 + i));
  }
  __syncwarp();
  unsigned registers[static_cast<std::size_t>(matrices)];
  load(registers, &numbers[lane][0]);
  for (int i = 0; i < matrices; ++i) {
    stg(&out[i * 32 + lane], registers[i]);
  }
}

__global__ void load_x4_kernel(unsigned* out, bool transposed) {
  store_registers<void (*)(unsigned(&)[4], const void*), 4>(
      out, transposed
               ? [](unsigned(&registers)[4],
                    const void* row) { load_matrix_x4_transposed(registers, row); }
               : [](unsigned(&registers)[4], const void* row) { load_matrix_x4(registers, row); });
}

__global__ void load_x2_kernel(unsigned* out, bool transposed) {
  store_registers<void (*)(unsigned(&)[2], const void*), 2>(
      out, transposed
               ? [](unsigned(&registers)[2],
                    const void* row) { load_matrix_x2_transposed(registers, row); }
               : [](unsigned(&registers)[2], const void* row) { load_matrix_x2(registers, row); });
}

// PTX: lane l holds elements (l / 4, 2 (l % 4)) and (l / 4, 2 (l % 4) + 1); transposed, their mirrors.
void expect_elements(const std::vector<unsigned>& out, int matrices, bool transposed) {
  for (int matrix = 0; matrix < matrices; ++matrix) {
    for (int lane = 0; lane < 32; ++lane) {
      for (int half_of = 0; half_of < 2; ++half_of) {
        const int row = lane / 4;
        const int column = lane % 4 * 2 + half_of;
        const int number = matrix * 64 + (transposed ? column * 8 + row : row * 8 + column);
        EXPECT_EQ(at(out, matrix * 32 + lane) >> (16 * half_of) & 0xffffU,
                  static_cast<unsigned>(number))
            << "matrix " << matrix << ", lane " << lane;
      }
    }
  }
}

TEST(MatrixTiles, LoadsGiveEachLaneItsElements) {
  for (const bool transposed : {false, true}) {
    Buffer<unsigned> four("four", std::size_t{128});
    launch(load_x4_kernel, one_block(32), four.data(), transposed);
    expect_elements(four.download(), 4, transposed);
    Buffer<unsigned> two("two", std::size_t{64});
    launch(load_x2_kernel, one_block(32), two.data(), transposed);
    expect_elements(two.download(), 2, transposed);
  }
}

// Which 16-byte unit of its row a matrix's row lies in.
enum class Arrangement { kDense, kPadded, kSwizzled };

__global__ void load_column_kernel(int row_bytes, Arrangement arrangement) {
  auto* const bytes = dynamic_shared<unsigned char>();
  const int lane = static_cast<int>(threadIdx.x);
  const int stride = row_bytes + (arrangement == Arrangement::kPadded ? 16 : 0);
  for (int i = lane * 4; i < 32 * stride; i += 128) {
    sts(reinterpret_cast<float*>(bytes + i), 0.0F);
  }
  __syncwarp();
  const int unit = arrangement == Arrangement::kSwizzled ? lane % 8 : 0;
  unsigned registers[4];
  load_matrix_x4(registers, bytes + lane * stride + unit * 16);
}

TEST(MatrixTiles, AMatrixIsAWavefrontWhereItsRowsMissEachOther) {
  // Eight rows of 16 bytes are 32 words. Rows of 128 bytes all begin in bank 0: 8 wavefronts a matrix.
  // 16 bytes more per row, or row r's unit r, put them into 32 banks: 1 a matrix. Rows of 64 bytes:
  // every second row begins in bank 0, so 4.
  const auto wavefronts = [](int row_bytes, Arrangement arrangement) {
    const Report report =
        recorded(load_column_kernel, one_block(32, 32 * 144), row_bytes, arrangement);
    const Site load = report.total(AccessKind::kSharedLoad);
    EXPECT_EQ(load.requests, 1U);
    EXPECT_EQ(load.bytes, 512U);
    EXPECT_EQ(load.ideal_wavefronts, 4U);
    return load.wavefronts;
  };
  EXPECT_EQ(wavefronts(128, Arrangement::kDense), 32U);
  EXPECT_EQ(wavefronts(64, Arrangement::kDense), 16U);
  EXPECT_EQ(wavefronts(32, Arrangement::kDense), 8U);
  EXPECT_EQ(wavefronts(16, Arrangement::kDense), 4U);
  EXPECT_EQ(wavefronts(128, Arrangement::kPadded), 4U);
  EXPECT_EQ(wavefronts(64, Arrangement::kPadded), 4U);
  EXPECT_EQ(wavefronts(128, Arrangement::kSwizzled), 4U);
}

__global__ void misaligned_load_kernel(int offset) {
  auto* const bytes = dynamic_shared<unsigned char>();
  for (int i = 0; i < 16; i += 4) {
    sts(reinterpret_cast<float*>(bytes + threadIdx.x * 16 + i), 0.0F);
  }
  __syncwarp();
  unsigned registers[4];
  load_matrix_x4(registers, bytes + threadIdx.x * 16 + offset);
}

TEST(MatrixTiles, RowsAreAligned) {
  expect_fault(Fault::kMisaligned, {"16 bytes", "a multiple of 16"},
               [] { launch(misaligned_load_kernel, one_block(32, 1024), 8); });
  expect_fault(Fault::kUninitialised, {"byte 512 of dynamic shared memory"},
               [] { launch(misaligned_load_kernel, one_block(32, 1024), 16); });
}

__global__ void half_a_warp_kernel() {
  unsigned registers[2] = {0, 0};
  const unsigned left[4] = {0, 0, 0, 0};
  float sums[4] = {0, 0, 0, 0};
  if (threadIdx.x < 16) {
    multiply_accumulate(sums, left, registers, sums);
  }
}

TEST(MatrixTiles, TheWholeWarpMultiplies) {
  EXPECT_THROW(launch(half_a_warp_kernel, one_block(32)), SimtError);
  EXPECT_THROW(launch(half_a_warp_kernel, one_block(16)), SimtError);
}

__global__ void pack_kernel(unsigned* out, float low, float high) {
  stg(out, pack_bf16(low, high));
}

TEST(MatrixTiles, PackingRounds) {
  Buffer<unsigned> out("out", std::size_t{1});
  // 1 + 2^-8 is half-way between two bf16 values; the even one is 1.
  launch(pack_kernel, one_block(1), out.data(), 1.0F + 0x1p-8F, -2.0F);
  EXPECT_EQ(out.download().at(0), 0xc0003f80U);
}

__global__ void f16_product_kernel(const float* a, const float* b, float* d) {
  const int row = static_cast<int>(threadIdx.x) / 4;
  const int pair = static_cast<int>(threadIdx.x) % 4 * 2;
  const auto packed = [](const float* at) { return pack_pair<half>(ldg(at), ldg(at + 1)); };
  unsigned left[4];
  unsigned right[2];
  for (int i = 0; i < 4; ++i) {
    left[i] = packed(&a[(row + i % 2 * 8) * 16 + pair + i / 2 * 8]);
  }
  for (int i = 0; i < 2; ++i) {
    right[i] = packed(&b[row * 16 + pair + i * 8]);  // a column of b is a row here
  }
  float sums[4] = {1.0F, 1.0F, 1.0F, 1.0F};
  multiply_accumulate<half>(sums, left, right, sums);
  for (int i = 0; i < 4; ++i) {
    stg(&d[(row + i / 2 * 8) * 8 + pair + i % 2], sums[i]);
  }
}

// Eleven bits of 1 + n / 1024 are more than bf16 has.
TEST(MatrixTiles, HalvesAreMultipliedAsHalves) {
  std::vector<float> a;
  std::vector<float> b;
  for (int i = 0; i < 16 * 16; ++i) a.push_back(1.0F + static_cast<float>(i * 37 % 1024) / 1024.0F);
  for (int i = 0; i < 8 * 16; ++i) b.push_back(static_cast<float>(i * 11 % 17) - 8.0F);
  const Buffer<float> left("left", a);
  const Buffer<float> right("right", b);
  Buffer<float> d("d", std::size_t{128});
  launch(f16_product_kernel, one_block(32), left.data(), right.data(), d.data());
  const std::vector<float> found = d.download();
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      float expected = 1.0F;
      for (int k = 0; k < 16; ++k) expected += at(a, row * 16 + k) * at(b, column * 16 + k);
      ASSERT_EQ(at(found, row * 8 + column), expected) << row << ", " << column;
    }
  }
  const float2 unpacked = unpack_pair<half>(pack_pair<half>(1.0F + 0x1p-11F, -0x1p-24F));
  EXPECT_EQ(unpacked.x, 1.0F) << "half-way: the even one";
  EXPECT_EQ(unpacked.y, -0x1p-24F) << "the smallest";
}

// d = a b for small whole numbers, which are exact.
template <Executor executor>
void expect_matrix_product(int depth, bool transposed) {
  std::vector<bf16> a;
  std::vector<bf16> b;
  for (const float value : whole_numbers<float>(16 * depth)) {
    a.emplace_back(value);
  }
  for (const float value : whole_numbers<float>(8 * depth)) {
    b.emplace_back(3.0F - value);
  }
  const Buffer<bf16, executor> left("left", a);
  const Buffer<bf16, executor> right("right", b);
  Buffer<float, executor> d("d", std::size_t{128});
  matrix_product<executor>({.a = left.data(),
                            .b = right.data(),
                            .d = d.data(),
                            .depth = depth,
                            .transposed = transposed});
  const std::vector<float> result = d.download();
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      float expected = 0.0F;
      for (int k = 0; k < depth; ++k) {
        const int index = transposed ? k * 8 + column : column * depth + k;
        expected += static_cast<float>(at(a, row * depth + k)) * static_cast<float>(at(b, index));
      }
      ASSERT_EQ(at(result, row * 8 + column), expected) << row << ", " << column;
    }
  }
}

TEST(MatrixTiles, AProductIsALoops) {
  for (const bool transposed : {false, true}) {
    for (const int depth : {2, 16, 18, 48, 62}) {
      expect_matrix_product<Executor::kChecked>(depth, transposed);
      expect_matrix_product<Executor::kFast>(depth, transposed);
    }
  }
}

// A lane's four neighbours along the depth are a register, the first in the lowest byte.
unsigned packed_e4m3(const std::vector<float>& row, int first) {
  unsigned packed = 0;
  for (int i = 0; i < 4; ++i) {
    packed |= unsigned{fp8_e4m3(at(row, first + i)).bits()} << 8 * i;
  }
  return packed;
}

__global__ void e4m3_product_kernel(const unsigned* a, const unsigned* b, float* d) {
  const int lane = static_cast<int>(threadIdx.x);
  unsigned left[4];
  unsigned right[2];
  for (int i = 0; i < 4; ++i) {
    left[i] = ldg(&a[i * 32 + lane]);
  }
  for (int i = 0; i < 2; ++i) {
    right[i] = ldg(&b[i * 32 + lane]);
  }
  float sums[4] = {1.0F, 1.0F, 1.0F, 1.0F};
  multiply_accumulate_e4m3(sums, left, right, sums);
  for (int i = 0; i < 4; ++i) {
    stg(&d[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2], sums[i]);
  }
}

// d = a b + 1 with PTX's layout of m16n8k32 written out here: small whole numbers are exact.
TEST(MatrixTiles, AProductOfBytesIsALoops) {
  const std::vector<float> a = whole_numbers<float>(16 * 32);
  const std::vector<float> b = whole_numbers<float>(8 * 32);  // a column's depth is contiguous
  std::vector<unsigned> left(128);
  std::vector<unsigned> right(64);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i % 2 * 8;
      left[static_cast<std::size_t>(i * 32 + lane)] =
          packed_e4m3(a, row * 32 + lane % 4 * 4 + i / 2 * 16);
    }
    for (int i = 0; i < 2; ++i) {
      right[static_cast<std::size_t>(i * 32 + lane)] =
          packed_e4m3(b, lane / 4 * 32 + lane % 4 * 4 + i * 16);
    }
  }
  const Buffer<unsigned> of_a("a", left);
  const Buffer<unsigned> of_b("b", right);
  Buffer<float> d("d", std::size_t{128});
  launch(e4m3_product_kernel, one_block(32), of_a.data(), of_b.data(), d.data());
  const std::vector<float> found = d.download();
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      float expected = 1.0F;
      for (int k = 0; k < 32; ++k) {
        expected += at(a, row * 32 + k) * at(b, column * 32 + k);
      }
      ASSERT_EQ(at(found, row * 8 + column), expected) << row << ", " << column;
    }
  }
}

}  // namespace matrix_tiles_test
}  // namespace ultra::simt::test
