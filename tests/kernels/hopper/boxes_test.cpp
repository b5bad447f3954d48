// TMA on the emulator: boxes arrive swizzled and with zeros outside, leave as far as the tensor
// reaches, and are counted; what is missing on their way out is found.
// Covers: kernels/simt/emulator/async/boxes.hpp, kernels/hopper/store_matrix.cuh

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/hopper/prepare.cuh"
#include "kernels/hopper/store_matrix.cuh"
#include "kernels/hopper/wgmma.cuh"
#include "tests/kernels/simt/support.hpp"

namespace ultra::simt::test {
namespace boxes_test {

using namespace kernels::hopper;

constexpr int kRows = 16;
constexpr int kColumns = 64;
constexpr int kUnits = kRows * kRowUnits;

struct Shared {
  uint4 box[kUnits];
  Barrier is_full;
};

// Where a box begins.
struct Corner {
  HeadAt head;
  int row;
  int column;
};

// Fetches a box of a head's matrix, and stores its units as they lie.
__global__ void fetch_kernel(const __grid_constant__ TensorMap map, Corner at, uint4* out) {
  auto& shared = aligned_shared<Shared>();
  if (threadIdx.x == 0) {
    init_barrier(shared.is_full, 1);
    publish_barriers();
    arrive_and_expect(shared.is_full, sizeof shared.box);
    fetch_box(shared.box, map, at.head, at.row, at.column, shared.is_full);
  }
  __syncthreads();
  wait_for(shared.is_full, 0);
  for (int i = static_cast<int>(threadIdx.x); i < kUnits; i += 32) {
    stg(&out[i], lds(&shared.box[i]));
  }
}

float value_of(const HeadAt& head, int row, int column) {
  return static_cast<float>(head.sequence * 400 + head.head * 100 + row * 7 + column % 31 + 1);
}

class Boxes : public ::testing::Test {
 protected:
  static constexpr int kSequences = 2;
  static constexpr int kHeads = 3;
  static constexpr int kTensorRows = 20;
  static constexpr int kTensorColumns = 72;

  static HeadMatrices matrices(bool rows_first) {
    return {kSequences, kHeads, kTensorRows, kTensorColumns, rows_first};
  }
  static std::vector<bf16> values(bool rows_first) {
    std::vector<bf16> values;
    for (int sequence = 0; sequence < kSequences; ++sequence) {
      for (int i = 0; i < kHeads * kTensorRows; ++i) {
        const int head = rows_first ? i % kHeads : i / kTensorRows;
        const int row = rows_first ? i / kHeads : i % kTensorRows;
        for (int column = 0; column < kTensorColumns; ++column) {
          values.push_back(bf16(value_of({sequence, head}, row, column)));
        }
      }
    }
    return values;
  }
  static bool is_inside(const HeadAt& head, int row, int column) {
    return head.sequence >= 0 && head.sequence < kSequences && head.head >= 0 &&
           head.head < kHeads && row >= 0 && row < kTensorRows && column >= 0 &&
           column < kTensorColumns;
  }

  void expect_box(const Corner& corner, bool rows_first) {
    const Buffer<bf16> tensor("tensor", values(rows_first));
    const TensorMap map = describe_heads(tensor.data(), matrices(rows_first), kRows);
    const Report report =
        recorded(fetch_kernel, one_block(32, bytes_of<Shared>()), map, corner, out_.data());
    const std::vector<uint4> found = out_.download();
    std::uint64_t inside = 0;
    for (int row = 0; row < kRows; ++row) {
      for (int column = 0; column < kColumns; ++column) {
        const int unit = row * kRowUnits + (column / 8 ^ row % 8);
        const auto* const elements = reinterpret_cast<const bf16*>(&at(found, unit));
        const bool exists = is_inside(corner.head, corner.row + row, corner.column + column);
        inside += exists ? sizeof(bf16) : 0;
        const float expected = exists ? static_cast<float>(bf16(value_of(
                                            corner.head, corner.row + row, corner.column + column)))
                                      : 0.0F;
        ASSERT_EQ(static_cast<float>(elements[column % 8]), expected) << row << ", " << column;
      }
    }
    EXPECT_EQ(report.total(AccessKind::kGlobalLoad).bytes, inside);
    EXPECT_EQ(report.total(AccessKind::kGlobalLoad).requests, 1U);
  }

  Buffer<uint4> out_{"out", std::size_t{kUnits}};
};

TEST_F(Boxes, ArriveSwizzledWithZerosOutside) {
  for (const Corner& corner :
       {Corner{{0, 0}, 0, 0}, Corner{{0, 1}, 3, 8}, Corner{{0, 2}, 10, 0}, Corner{{1, 0}, 0, 40},
        Corner{{1, 2}, 12, 64}, Corner{{1, 1}, -5, -9}, Corner{{2, 0}, 0, 0}, Corner{{0, 3}, 0, 0},
        Corner{{0, 0}, 40, 0}, Corner{{0, 0}, 0, 80}}) {
    expect_box(corner, false);
    expect_box(corner, true);
  }
}

TEST_F(Boxes, AreReadFromBuffersThatHoldValues) {
  const Buffer<bf16> empty("empty", std::size_t{kRows} * kColumns);
  const auto fetch = [&](const bf16* matrix, int rows) {
    launch(fetch_kernel, one_block(32, bytes_of<Shared>()),
           describe_heads(matrix, {1, 1, rows, kColumns}, kRows), Corner{{0, 0}, 0, 0},
           out_.data());
  };
  expect_fault(Fault::kUninitialised, {"reads element 0 of buffer 'empty'"},
               [&] { fetch(empty.data(), kRows); });
  const Buffer<bf16> few("few", std::vector<bf16>(std::size_t{2} * kColumns, bf16(1.0F)));
  expect_fault(Fault::kOutOfBounds, {"expected"}, [&] { fetch(few.data(), kRows); });
}

// What is done otherwise when a box is filled and stored.
enum class Manner { kRight, kNoFence, kNoBarrier, kNoCommit, kNoWait, kRefill, kHalf };

struct Staged {
  uint4 box[kUnits];
};

// Fills a box by stmatrix: register i of lane l holds the numbers of its elements' places.
__device__ void fill(Staged& shared, Manner manner) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;  // each has 32 columns
  for (int unit = 4 * warp; unit < 4 * warp + (manner == Manner::kHalf ? 2 : 4); unit += 2) {
    unsigned packed[4];
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i % 2 * 8;
      const int column = (unit + i / 2) * 8 + lane % 4 * 2;
      packed[i] = pack_bf16(value_of({0, 0}, row, column), value_of({0, 0}, row, column + 1));
    }
    const int row = lane % 16;
    store_matrices(&shared.box[row * kRowUnits + ((unit + lane / 16) ^ row % 8)], packed);
  }
}

__global__ void store_kernel(const __grid_constant__ TensorMap map, int row, int column,
                             Manner manner) {
  auto& shared = aligned_shared<Staged>();
  fill(shared, manner);
  if (manner != Manner::kNoFence) {
    show_to_tma();
  }
  if (manner != Manner::kNoBarrier) {
    wait_at_named<64>(3);
  }
  if (threadIdx.x == 0) {
    store_box(map, row, column, shared.box);
    if (manner != Manner::kNoCommit) {
      commit_boxes();
    }
    if (manner != Manner::kNoWait && manner != Manner::kRefill) {
      wait_until_boxes_are_read();
    }
  }
  if (manner == Manner::kRefill) {
    wait_at_named<64>(3);
    fill(shared, manner);
  }
}

class StoredBoxes : public ::testing::Test {
 protected:
  static constexpr int kTensorRows = 20;
  static constexpr int kTensorColumns = 72;

  Report store(int row, int column, Manner manner) {
    Config config = one_block(64, bytes_of<Staged>());
    return recorded(store_kernel, config,
                    describe_matrix(tensor_.data(), kTensorRows, kTensorColumns, kRows), row,
                    column, manner);
  }
  void expect_found(Manner manner, Fault fault, const std::vector<std::string>& parts) {
    expect_fault(fault, parts, [&] { store(0, 0, manner); });
  }

  Buffer<bf16> tensor_{"tensor",
                       std::vector<bf16>(std::size_t{kTensorRows} * kTensorColumns, bf16(-1.0F))};
};

TEST_F(StoredBoxes, ReachAsFarAsTheTensor) {
  const Report report = store(12, 16, Manner::kRight);
  const std::vector<bf16> found = tensor_.download();
  std::uint64_t inside = 0;
  for (int row = 0; row < kTensorRows; ++row) {
    for (int column = 0; column < kTensorColumns; ++column) {
      const bool is_in_box = row >= 12 && column >= 16;
      inside += is_in_box ? sizeof(bf16) : 0;
      const float expected =
          is_in_box ? static_cast<float>(bf16(value_of({0, 0}, row - 12, column - 16))) : -1.0F;
      ASSERT_EQ(static_cast<float>(at(found, row * kTensorColumns + column)), expected)
          << row << ", " << column;
    }
  }
  EXPECT_EQ(report.total(AccessKind::kGlobalStore).bytes, inside);
}

TEST_F(StoredBoxes, NeedTheFenceAndTheBarrier) {
  expect_found(Manner::kNoFence, Fault::kRace, {"expected fence.proxy.async", "show_to_tma()"});
  expect_found(Manner::kNoBarrier, Fault::kUninitialised, {"of which bytes are not written"});
}

TEST_F(StoredBoxes, MustBeReadBeforeTheirMemoryEndsOrIsWritten) {
  expect_found(Manner::kNoCommit, Fault::kBarrier, {"before TMA has read this box"});
  expect_found(Manner::kNoWait, Fault::kBarrier, {"before TMA has read this box"});
  expect_found(Manner::kRefill, Fault::kRace, {"the thread writes byte", "TMA of thread"});
  expect_found(Manner::kHalf, Fault::kUninitialised, {"of which bytes are not written"});
}

}  // namespace boxes_test
}  // namespace ultra::simt::test
