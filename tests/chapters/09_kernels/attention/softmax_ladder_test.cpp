// What each rung of softmax changes, in counters; and rows of many lengths.

#include <gtest/gtest.h>

#include "tests/chapters/09_kernels/ladder_fixture.hpp"

namespace ultra::ladders {
namespace {

using simt::AccessKind;

// Rows that begin at a sector, and fill warps.
class SoftmaxLadder : public test::LadderTest {
 protected:
  SoftmaxLadder() : LadderTest("softmax", {kRows, kColumns}) {}

  static constexpr int kRows = 32;
  static constexpr int kColumns = 256;
  static constexpr std::uint64_t kElements = std::uint64_t{kRows} * kColumns;
  static constexpr std::uint64_t kSectors = kElements / 8;  // of one read or write of the matrix
};

TEST_F(SoftmaxLadder, ThreadPerRowTouchesASectorPerLane) {
  const simt::Report report = counters_of("thread_per_row");
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).lanes, 3 * kElements);
  expect_sectors_per_request(report, 32.0, 32.0);
}

// One more request of a row: its first element, for all lanes.
TEST_F(SoftmaxLadder, WarpPerRowReadsThreeTimes) {
  expect_sectors(counters_of("warp_per_row"), 3 * kSectors + kRows, kSectors);
}

TEST_F(SoftmaxLadder, OnlineReadsTwice) {
  expect_sectors(counters_of("online"), 2 * kSectors, kSectors);
}

TEST_F(SoftmaxLadder, RegistersReadOnceInVectors) {
  for (const char* const rung : {"registers", "block_per_row"}) {
    SCOPED_TRACE(rung);
    const simt::Report report = counters_of(rung);
    EXPECT_EQ(report.total(AccessKind::kGlobalLoad).requests, kElements / (4 * 32));
    EXPECT_EQ(report.total(AccessKind::kGlobalStore).requests, kElements / (4 * 32));
    EXPECT_EQ(bytes_moved(report), least_bytes());
  }
}

TEST_F(SoftmaxLadder, LongRowsReadTwiceInVectors) {
  const simt::Report report = counters_of("long_rows");
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).sectors, 2 * kSectors);
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).requests, 2 * kElements / (4 * 32));
  EXPECT_EQ(report.total(AccessKind::kGlobalStore).sectors, kSectors);
}

// Lengths around the limits between the kernels that the launchers choose from.
TEST_F(SoftmaxLadder, BlocksAndRegistersTakeRowsOfManyLengths) {
  for (const int columns : {1, 3, 128, 129, 255, 256, 260, 512, 515, 1024, 1028, 2047, 2048}) {
    expect_right_bare("registers", {5, columns});
  }
  for (const int columns : {1, 31, 513, 4096, 16384, 16388, 32767, 32768}) {
    expect_right_bare("block_per_row", {2, columns});
  }
  expect_right("long_rows", {.sizes = {1, 8196}});
  for (const int columns : {8191, 8192, 8193, 8196, 40000}) {
    expect_right_bare("long_rows", {2, columns});
  }
}

TEST_F(SoftmaxLadder, RefusesRowsThatDoNotFit) {
  EXPECT_NE(refusal_of("registers", {4, 2049}).find("2049 columns"), std::string::npos);
  EXPECT_EQ(refusal_of("block_per_row", {4, 2049}), "");
  EXPECT_NE(refusal_of("block_per_row", {4, 32769}).find("at most 32768"), std::string::npos);
  EXPECT_EQ(refusal_of("online", {4, 32769}), "");
}

}  // namespace
}  // namespace ultra::ladders
