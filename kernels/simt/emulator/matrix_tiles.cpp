// Who owns which elements of the matrices of ldmatrix and mma.sync: PTX ISA, "ldmatrix" and "Matrix
// Fragments for mma.m16n8k16".

#include "kernels/simt/emulator/matrix_tiles.hpp"

namespace ultra::simt::emulator {
namespace {

constexpr std::size_t kRows = 16;
constexpr std::size_t kColumns = 8;
constexpr std::size_t kDepth = 16;

void expect_whole_warp(LaneMask mask) {
  if (mask != kWholeWarp) {
    refuse_source(0, 31, mask);
  }
}

}  // namespace

void distribute_rows(std::span<void* const, 32> deposits, LaneMask mask, std::size_t matrices,
                     bool transposed) {
  expect_whole_warp(mask);
  const auto element = [&deposits](std::size_t matrix, std::size_t row, std::size_t column) {
    return unsigned{static_cast<const MatrixLoad*>(deposits[matrix * 8 + row])->row[column]};
  };
  for (std::size_t lane = 0; lane < 32; ++lane) {
    const std::size_t group = lane / 4;
    const std::size_t pair = lane % 4 * 2;
    for (std::size_t matrix = 0; matrix < matrices; ++matrix) {
      const unsigned low = transposed ? element(matrix, pair, group) : element(matrix, group, pair);
      const unsigned high =
          transposed ? element(matrix, pair + 1, group) : element(matrix, group, pair + 1);
      static_cast<MatrixLoad*>(deposits[lane])->registers[matrix] = low | high << 16;
    }
  }
}

void resolve_matrix_product(std::span<void* const, 32> deposits, LaneMask mask) {
  expect_whole_warp(mask);
  std::array<std::array<float, kDepth>, kRows> a{};
  std::array<std::array<float, kDepth>, kColumns> b{};
  for (std::size_t lane = 0; lane < 32; ++lane) {
    const auto& own = *static_cast<const MatrixProduct*>(deposits[lane]);
    const std::size_t group = lane / 4;
    const std::size_t pair = lane % 4 * 2;
    for (std::size_t part = 0; part < own.a.size(); ++part) {
      auto& row = a[group + part % 2 * 8];
      const float2 elements = unpack_bf16(own.a[part]);
      row[pair + part / 2 * 8] = elements.x;
      row[pair + part / 2 * 8 + 1] = elements.y;
    }
    for (std::size_t part = 0; part < own.b.size(); ++part) {
      const float2 elements = unpack_bf16(own.b[part]);
      b[group][pair + part * 8] = elements.x;
      b[group][pair + part * 8 + 1] = elements.y;
    }
  }
  for (std::size_t lane = 0; lane < 32; ++lane) {
    auto& own = *static_cast<MatrixProduct*>(deposits[lane]);
    for (std::size_t index = 0; index < own.sums.size(); ++index) {
      const auto& row = a[lane / 4 + index / 2 * 8];
      const auto& column = b[lane % 4 * 2 + index % 2];
      for (std::size_t k = 0; k < kDepth; ++k) {
        own.sums[index] += row[k] * column[k];
      }
    }
  }
}

}  // namespace ultra::simt::emulator
