// Who owns which elements of the matrices of ldmatrix and mma.sync: PTX ISA, "ldmatrix" and "Matrix
// Fragments for mma.m16n8k16" and "mma.m16n8k32".

#include "kernels/simt/matrix_tiles.cuh"

#include <algorithm>

namespace ultra::simt::emulator {
namespace {

constexpr std::size_t kRows = 16;
constexpr std::size_t kColumns = 8;

void expect_whole_warp(LaneMask mask) {
  if (mask != kWholeWarp) {
    refuse_source(0, 31, mask);
  }
}

// A product of 16 rows, 8 columns and 8 registers' worth of depth: `width` elements each, which
// unpack() gives. A register's elements are neighbours along the depth; those of the four lanes of a
// group follow each other, and the second half of the depth has registers of its own.
template <std::size_t width, typename Unpack>
void multiply_lanes(std::span<void* const, 32> deposits, LaneMask mask, const Unpack& unpack) {
  expect_whole_warp(mask);
  constexpr std::size_t kDepth = 8 * width;
  std::array<std::array<float, kDepth>, kRows> a{};
  std::array<std::array<float, kDepth>, kColumns> b{};
  for (std::size_t lane = 0; lane < 32; ++lane) {
    const auto& own = *static_cast<const MatrixProduct*>(deposits[lane]);
    const std::size_t group = lane / 4;
    const std::size_t first = lane % 4 * width;
    for (std::size_t part = 0; part < own.a.size(); ++part) {
      const std::array<float, width> elements = unpack(own.a[part]);
      auto& row = a[group + part % 2 * 8];
      std::ranges::copy(elements, &row[first + part / 2 * kDepth / 2]);
    }
    for (std::size_t part = 0; part < own.b.size(); ++part) {
      const std::array<float, width> elements = unpack(own.b[part]);
      std::ranges::copy(elements, &b[group][first + part * kDepth / 2]);
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

void multiply_matrices(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                       const float (&c)[4], const Meeting& meeting) {
  MatrixProduct product{
      .a = {a[0], a[1], a[2], a[3]}, .b = {b[0], b[1]}, .sums = {c[0], c[1], c[2], c[3]}};
  Meeting own = meeting;
  own.deposit = &product;
  meet(own);
  std::ranges::copy(product.sums, d);
}

void resolve_matrix_product(std::span<void* const, 32> deposits, LaneMask mask) {
  multiply_lanes<2>(deposits, mask, [](unsigned packed) {
    const float2 elements = unpack_bf16(packed);
    return std::array{elements.x, elements.y};
  });
}

void resolve_matrix_product_f16(std::span<void* const, 32> deposits, LaneMask mask) {
  multiply_lanes<2>(deposits, mask, [](unsigned packed) {
    const float2 elements = unpack_pair<half>(packed);
    return std::array{elements.x, elements.y};
  });
}

void resolve_matrix_product_e4m3(std::span<void* const, 32> deposits, LaneMask mask) {
  multiply_lanes<4>(deposits, mask, [](unsigned packed) {
    std::array<float, 4> elements{};
    for (float& element : elements) {
      element = static_cast<float>(fp8_e4m3::from_bits(static_cast<std::uint8_t>(packed)));
      packed >>= 8;
    }
    return elements;
  });
}

}  // namespace ultra::simt::emulator
