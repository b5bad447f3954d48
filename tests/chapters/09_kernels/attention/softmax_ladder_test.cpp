// What each rung of softmax changes, in counters; and rows of many lengths.

#include <gtest/gtest.h>

#include "tests/support/contracts/kernels.hpp"

namespace ultra::ladders {
namespace {

using simt::AccessKind;

class SoftmaxLadder : public ::testing::Test {
 protected:
  // Rows that begin at a sector, and fill warps.
  simt::Report counters_of(const char* rung) {
    return test::counted(*ladder, rung_of(rung), {kRows, kColumns});
  }

  int rung_of(const char* name) { return test::find_rung(*ladder, name); }

  static constexpr int kRows = 32;
  static constexpr int kColumns = 256;
  static constexpr std::uint64_t kElements = std::uint64_t{kRows} * kColumns;
  static constexpr std::uint64_t kSectors = kElements / 8;  // of one read or write of the matrix

  std::unique_ptr<Ladder> ladder = test::find_ladder("softmax");
};

TEST_F(SoftmaxLadder, ThreadPerRowTouchesASectorPerLane) {
  const simt::Report report = counters_of("thread_per_row");
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).lanes, 3 * kElements);
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).sectors_per_request(), 32.0);
  EXPECT_EQ(report.total(AccessKind::kGlobalStore).sectors_per_request(), 32.0);
}

// One more request of a row: its first element, for all lanes.
TEST_F(SoftmaxLadder, WarpPerRowReadsThreeTimes) {
  const simt::Report report = counters_of("warp_per_row");
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).sectors, 3 * kSectors + kRows);
  EXPECT_EQ(report.total(AccessKind::kGlobalStore).sectors, kSectors);
}

TEST_F(SoftmaxLadder, OnlineReadsTwice) {
  const simt::Report report = counters_of("online");
  EXPECT_EQ(report.total(AccessKind::kGlobalLoad).sectors, 2 * kSectors);
  EXPECT_EQ(report.total(AccessKind::kGlobalStore).sectors, kSectors);
}

TEST_F(SoftmaxLadder, RegistersReadOnceInVectors) {
  for (const char* const rung : {"registers", "block_per_row"}) {
    SCOPED_TRACE(rung);
    const simt::Report report = counters_of(rung);
    const simt::Site loads = report.total(AccessKind::kGlobalLoad);
    const simt::Site stores = report.total(AccessKind::kGlobalStore);
    EXPECT_EQ(loads.requests, kElements / (4 * 32));
    EXPECT_EQ(stores.requests, kElements / (4 * 32));
    EXPECT_EQ(32.0 * static_cast<double>(loads.sectors + stores.sectors),
              ladder->cost({kRows, kColumns}).least_bytes);
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
    test::expect_right(*ladder, rung_of("registers"),
                       {.sizes = {5, columns}, .side = simt::Side::kBare});
  }
  for (const int columns : {1, 31, 513, 4096, 16384, 16388, 32767, 32768}) {
    test::expect_right(*ladder, rung_of("block_per_row"),
                       {.sizes = {2, columns}, .side = simt::Side::kBare});
  }
  test::expect_right(*ladder, rung_of("long_rows"), {.sizes = {1, 8196}});
  for (const int columns : {8191, 8192, 8193, 8196, 40000}) {
    test::expect_right(*ladder, rung_of("long_rows"),
                       {.sizes = {2, columns}, .side = simt::Side::kBare});
  }
}

TEST_F(SoftmaxLadder, RefusesRowsThatDoNotFit) {
  const auto refusal = [&](const char* rung, int columns) {
    return ladder->refusal(rung_of(rung), {4, columns}, simt::Side::kBare);
  };
  EXPECT_NE(refusal("registers", 2049).find("2049 columns"), std::string::npos);
  EXPECT_EQ(refusal("block_per_row", 2049), "");
  EXPECT_NE(refusal("block_per_row", 32769).find("at most 32768"), std::string::npos);
  EXPECT_EQ(refusal("online", 32769), "");
}

}  // namespace
}  // namespace ultra::ladders
