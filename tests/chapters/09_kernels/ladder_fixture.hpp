#pragma once
// A fixture for what the rungs of one ladder change, in counters. Rungs go by their names.

#include <source_location>

#include "tests/support/contracts/kernels.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::test {

class LadderTest : public ::testing::Test {
 protected:
  // `sizes` are those that counters_of() runs a rung on unless told others.
  explicit LadderTest(const char* name, ladders::Sizes sizes = {})
      : sizes_(std::move(sizes)), ladder_(find_ladder(name)) {}

  [[nodiscard]] const ladders::Ladder& ladder() const { return *ladder_; }
  [[nodiscard]] double least_bytes() const { return ladder_->cost(sizes_).least_bytes; }

  [[nodiscard]] simt::Report counters_of(const std::string& rung) const {
    return counters_of(rung, sizes_);
  }
  [[nodiscard]] simt::Report counters_of(const std::string& rung, const ladders::Sizes& sizes,
                                         std::uint64_t seed = 1) const {
    return expect_right(rung, {.sizes = sizes, .seed = seed}).report;
  }
  ladders::Outcome expect_right(const std::string& rung, const ladders::RunRequest& request) const {
    return test::expect_right(*ladder_, find_rung(*ladder_, rung), request);
  }
  // The rungs for any GPU: those for Hopper have tiles and engines of their own.
  [[nodiscard]] std::vector<std::string> emulated_rungs() const {
    std::vector<std::string> names;
    for (const ladders::RungInfo& rung : ladder_->rungs()) {
      if (rung.needs == ladders::Needs::kAnything) {
        names.push_back(rung.name);
      }
    }
    return names;
  }

  // Bytes of the sectors that loads and stores touch.
  static double bytes_moved(const simt::Report& report) {
    return 32.0 * static_cast<double>(report.total(simt::AccessKind::kGlobalLoad).sectors +
                                      report.total(simt::AccessKind::kGlobalStore).sectors);
  }
  // Bytes that lanes ask for, without the rest of their sectors.
  static double bytes_asked(const simt::Report& report) {
    return static_cast<double>(report.total(simt::AccessKind::kGlobalLoad).bytes +
                               report.total(simt::AccessKind::kGlobalStore).bytes);
  }

  using Where = std::source_location;
  static void expect_sectors(const simt::Report& report, std::uint64_t loads, std::uint64_t stores,
                             const Where& where = Where::current()) {
    const ::testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "");
    EXPECT_EQ(report.total(simt::AccessKind::kGlobalLoad).sectors, loads);
    EXPECT_EQ(report.total(simt::AccessKind::kGlobalStore).sectors, stores);
  }
  static void expect_sectors_per_request(const simt::Report& report, double loads, double stores,
                                         const Where& where = Where::current()) {
    const ::testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "");
    EXPECT_EQ(report.total(simt::AccessKind::kGlobalLoad).sectors_per_request(), loads);
    EXPECT_EQ(report.total(simt::AccessKind::kGlobalStore).sectors_per_request(), stores);
  }
  static void expect_no_bank_conflicts(const simt::Report& report) {
    for (const simt::AccessKind kind :
         {simt::AccessKind::kSharedLoad, simt::AccessKind::kSharedStore}) {
      EXPECT_EQ(report.total(kind).wavefronts, report.total(kind).ideal_wavefronts)
          << simt::name_of(kind) << '\n'
          << simt::to_table(report);
    }
  }

  [[nodiscard]] std::uint64_t loaded(const std::string& rung, const ladders::Sizes& sizes,
                                     std::uint64_t seed) const {
    return counters_of(rung, sizes, seed).total(simt::AccessKind::kGlobalLoad).bytes;
  }
  [[nodiscard]] std::uint64_t stored(const std::string& rung, const ladders::Sizes& sizes,
                                     std::uint64_t seed) const {
    return counters_of(rung, sizes, seed).total(simt::AccessKind::kGlobalStore).bytes;
  }

  ladders::Sizes sizes_;

 private:
  std::unique_ptr<ladders::Ladder> ladder_;
};

// A name as a template's argument.
template <std::size_t n>
struct LadderName {
  char text[n];
  consteval LadderName(const char (&name)[n]) { std::copy_n(name, n, text); }
};

// The tests of a ladder, on these sizes unless told others.
template <LadderName name, int... sizes>
class LadderOf : public LadderTest {
 protected:
  LadderOf() : LadderTest(name.text, {sizes...}) {}
};

}  // namespace ultra::test
