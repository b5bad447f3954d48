// What becomes of a rung, as a status, as text and as JSON.

#include "chapters/09_kernels/rung_run.hpp"

#include <nlohmann/json.hpp>
#include <sstream>

#include "chapters/09_kernels/ladder.hpp"
#include "chapters/09_kernels/report/ladder_table.hpp"
#include "chapters/09_kernels/report/rung_json.hpp"
#include "kernels/device/device_info.hpp"
#include "kernels/device/vendor_matmul.hpp"
#include "kernels/simt/error.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::ladders::rung_run_test {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class FakeLadder final : public Ladder {
 public:
  const LadderInfo& info() const override { return info_; }
  std::span<const RungInfo> rungs() const override { return rungs_; }
  using Ladder::cost;
  Cost cost(const Sizes& sizes, std::uint64_t) const override {
    return {.operations = 1e9, .least_bytes = 8.0 * sizes[0]};
  }
  std::string refusal(int rung, const Sizes&, simt::Executor) const override {
    return rung == 5 ? "it has no shape" : "";
  }

  Outcome run(int rung, const RunRequest& request) const override {
    Outcome outcome;
    if (rung == 3) {
      throw simt::SimtError(simt::Fault::kRace, "two threads at one place");
    }
    if (rung == 4) {
      throw NotWritten("09.99 fake");
    }
    outcome.verdict.compare("y", 7, rung == 1 ? 1.0 : 2.0, 1.0, 0.25);
    if (request.executor == simt::Executor::kGpu) {
      outcome.seconds = {0.004, 0.001, 0.002};
      outcome.beside_seconds = {0.001, 0.001, 0.001};
    } else {
      outcome.report.add({.kernel = "fake", .grid = {.x = 2}, .block = {.x = 32}}, counted());
    }
    return outcome;
  }

  // Two warps load 4 sectors each; one stores to 2 places of one bank, 16 lanes active.
  static std::vector<simt::Site> counted() {
    return {{.file = "kernels/fake/01.cu",
             .line = 3,
             .kind = simt::AccessKind::kGlobalLoad,
             .size = 4,
             .requests = 2,
             .lanes = 64,
             .sectors = 8,
             .bytes = 256},
            {.file = "kernels/fake/01.cu",
             .line = 4,
             .kind = simt::AccessKind::kSharedStore,
             .size = 4,
             .requests = 1,
             .lanes = 16,
             .bytes = 64,
             .wavefronts = 2,
             .ideal_wavefronts = 1}};
  }

 private:
  LadderInfo info_ = {.name = "fake",
                      .title = "y = x",
                      .dimensions = {{.name = "elements", .emulated = 16, .gpu = 1 << 20}},
                      .limit = Limit::kMemory};
  std::vector<RungInfo> rungs_ = {
      {.number = 1, .name = "good", .idea = "what is right", .file = "kernels/fake/01.cu"},
      {.number = 2, .name = "bad", .idea = "what is wrong", .file = "kernels/fake/02.cu"},
      {.number = 3, .name = "racing", .idea = "what races", .file = "kernels/fake/03.cu"},
      {.number = 4,
       .name = "stub",
       .idea = "an exercise",
       .file = "solutions/fake/04.cu",
       .exercise = "09.99"},
      {.number = 5,
       .name = "picky",
       .idea = "what refuses",
       .file = "kernels/fake/05.cu",
       .needs = Needs::kHopper}};
};

constexpr simt::Executor kEmulated = simt::Executor::kChecked;

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream stream(line);
  return {std::istream_iterator<std::string>(stream), {}};
}

class RungRunTest : public ::testing::Test {
 protected:
  [[nodiscard]] RungRun run(int rung, simt::Executor executor = kEmulated) const {
    return run_rung(ladder_, rung, request(executor));
  }
  [[nodiscard]] static RunRequest request(simt::Executor executor) {
    return {.sizes = {16}, .seed = 3, .executor = executor};
  }
  [[nodiscard]] std::vector<RungRun> runs(const std::vector<int>& rungs) const {
    std::vector<RungRun> all;
    for (const int rung : rungs) {
      all.push_back(run(rung));
    }
    return all;
  }
  [[nodiscard]] json json_of(int rung, simt::Executor executor = kEmulated) const {
    return json::parse(to_json(ladder_, request(executor), run(rung, executor), nullptr).dump());
  }

  FakeLadder ladder_;
  Cost cost_ = ladder_.cost({16});
};

TEST_F(RungRunTest, WhatARungDoesIsItsStatus) {
  const std::vector<Status> expected = {Status::kRight, Status::kWrong, Status::kFaulty,
                                        Status::kNotWritten, Status::kNotRun};
  const std::vector<std::string> messages = {"", "y[7] is 2, expected 1 within 0.25: 4 times",
                                             "two threads", "not written: 09.99", "no shape"};
  for (int rung = 1; rung <= 5; ++rung) {
    const RungRun found = run(rung);
    const auto i = static_cast<std::size_t>(rung - 1);
    EXPECT_EQ(found.status, expected[i]) << rung;
    EXPECT_THAT(found.message, HasSubstr(messages[i]));
  }
}

TEST_F(RungRunTest, TheWorstRungDecides) {
  EXPECT_NO_THROW(expect_success(ladder_.info(), runs({1, 5})));
  const auto fails = [&](const std::vector<int>& rungs) {
    return ultra::test::message_of<RungFailed>(
        [&] { expect_success(ladder_.info(), runs(rungs)); });
  };
  EXPECT_THAT(fails({1, 4, 2}), HasSubstr("fake/02 bad is wrong: y[7]"));
  EXPECT_THAT(fails({4, 3}), HasSubstr("fake/03 racing is faulty: two threads"));
  EXPECT_THROW(expect_success(ladder_.info(), runs({1, 4})), NotWritten);
}

TEST_F(RungRunTest, AfterAFaultOnAGpuNothingElseIsRun) {
  EXPECT_FALSE(run(3).has_ended_gpu) << "the emulator goes on";
  const RungRun faulty = run(3, simt::Executor::kGpu);
  EXPECT_TRUE(faulty.has_ended_gpu);
  const RungRun next = not_run_after(faulty, ladder_, 4);
  EXPECT_EQ(next.status, Status::kNotRun);
  EXPECT_THAT(next.message,
              AllOf(HasSubstr("rung 3"), HasSubstr("Hint: run it alone: --kernel fake/4")));
  EXPECT_TRUE(not_run_after(next, ladder_, 5).has_ended_gpu) << "to the last rung";
}

TEST_F(RungRunTest, ARowOfCounters) {
  // 8 sectors in 2 requests; 8 * 32 bytes moved over 8 * 16 at least; 80 lanes in 3 instructions.
  EXPECT_THAT(words_of(emulated_row(run(1), cost_)),
              ElementsAre("1", "good", "2", "4.00", "2.00", "1", "2.00", "1", "26.7", "right"));
  EXPECT_THAT(words_of(emulated_row(run(4), cost_)),
              ElementsAre("4", "stub", "-", "-", "-", "-", "-", "-", "-", "not", "written"));
  EXPECT_THAT(emulated_row(run(2), cost_), HasSubstr("WRONG"));
}

TEST_F(RungRunTest, ARowOfTimes) {
  // Median 2 ms for 128 bytes; the ceiling moves 640 in 1 ms.
  const RungRun found = run(1, simt::Executor::kGpu);
  EXPECT_DOUBLE_EQ(found.median_seconds(), 0.002);
  EXPECT_DOUBLE_EQ(of_ceiling(found, 128, 640), 0.1);
  EXPECT_THAT(
      words_of(gpu_row(found, Limit::kMemory, {.operations = 1, .least_bytes = 128e6}, 640e6)),
      ElementsAre("1", "good", "2.0000", "64.0", "640.0", "10.0%", "right"));
  const std::string alone = gpu_row(found, Limit::kFp32, {.operations = 2e9, .least_bytes = 1}, 0);
  EXPECT_THAT(alone, HasSubstr("1.0"));
}

TEST_F(RungRunTest, NotesSayWhatIsWrong) {
  const std::vector<RungRun> all = runs({1, 2, 5});
  EXPECT_THAT(format_notes(all),
              AllOf(HasSubstr("what is right"), HasSubstr("02 bad is WRONG: y[7]"),
                    HasSubstr("05 picky is not run: it has no shape")));
}

TEST_F(RungRunTest, AListNamesEverything) {
  std::vector<std::unique_ptr<Ladder>> ladders;
  ladders.push_back(std::make_unique<FakeLadder>());
  EXPECT_THAT(format_list(ladders),
              AllOf(HasSubstr("fake: y = x"), HasSubstr("elements 16 (on a GPU: elements 1048576)"),
                    HasSubstr("solutions/fake/04.cu, exercise 09.99"),
                    HasSubstr("kernels/fake/05.cu, on GPUs of Hopper only")));
}

TEST_F(RungRunTest, JsonHoldsTheCounters) {
  const json found = json_of(1);
  EXPECT_EQ(found.at("ladder"), "fake");
  EXPECT_EQ(found.at("rung"), 1);
  EXPECT_EQ(found.at("sizes"), json({{"elements", 16}}));
  EXPECT_EQ(found.at("side"), "emulator");
  EXPECT_EQ(found.at("status"), "right");
  EXPECT_EQ(found.at("moved_bytes"), 256);
  EXPECT_EQ(found.at("least_bytes"), 128);
  EXPECT_EQ(found.at("totals").at("global_load").at("sectors"), 8);
  EXPECT_EQ(found.at("totals").at("shared_store").at("wavefronts"), 2);
  EXPECT_EQ(found.at("launches").at(0).at("grid"), json({2, 1, 1}));
  ASSERT_EQ(found.at("sites").size(), 2U);
  EXPECT_EQ(found.at("sites").at(1).at("line"), 4);
  EXPECT_EQ(found.at("sites").at(1).at("kind"), "shared_store");
  EXPECT_EQ(found.at("metrics").at("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"), 8);
  EXPECT_FALSE(found.contains("seconds"));
}

TEST_F(RungRunTest, JsonOfWhatIsNotRight) {
  EXPECT_EQ(json_of(2).at("worst_error"), 4);
  EXPECT_EQ(json_of(2).at("status"), "wrong");
  EXPECT_EQ(json_of(4).at("status"), "not_written");
  EXPECT_EQ(json_of(5).at("message"), "it has no shape");
  EXPECT_FALSE(json_of(3).contains("totals"));
}

TEST_F(RungRunTest, JsonOfAGpuHasTimesAndNoCounters) {
  const json found = json_of(1, simt::Executor::kGpu);
  EXPECT_EQ(found.at("side"), "gpu");
  EXPECT_EQ(found.at("seconds").size(), 3U);
  EXPECT_EQ(found.at("median_seconds"), 0.002);
  EXPECT_DOUBLE_EQ(found.at("rate"), 8.0 * 16 / 0.002 / 1e9);
  EXPECT_EQ(found.at("unit"), "GB/s");
  EXPECT_FALSE(found.contains("totals"));
}

TEST(Ceiling, WithoutAGpuSaysSo) {
  if (!kernels::list_devices().empty()) {
    GTEST_SKIP() << "this machine has a GPU";
  }
  const FakeLadder ladder;
  LadderInfo info = ladder.info();
  std::string why_not;
  const auto make = [&] { return make_ceiling(info, {16}, ladder.cost({16}), why_not); };
  EXPECT_THAT(ultra::test::message_of<simt::SimtError>([&] { static_cast<void>(make()); }),
              HasSubstr("Hint: "));
  info.limit = Limit::kBf16;
  const std::string missing = kernels::VendorMatmul::why_missing();
  if (missing.empty()) {
    EXPECT_THROW(static_cast<void>(make()), simt::SimtError);
  } else {
    EXPECT_EQ(make(), nullptr);
    EXPECT_THAT(why_not, AllOf(HasSubstr("cuBLAS"), HasSubstr("Hint: ")));
  }
}

TEST(ProductSizes, AreTheProblemsOwnWhereItIsAProduct) {
  LadderInfo info{.name = "matmul",
                  .title = "",
                  .dimensions = {{.name = "rows", .emulated = 1, .gpu = 1},
                                 {.name = "columns", .emulated = 1, .gpu = 1},
                                 {.name = "depth", .emulated = 1, .gpu = 1}},
                  .limit = Limit::kBf16};
  const Cost cost{.operations = 2.0 * 1024 * 1024 * 1024, .least_bytes = 1};
  EXPECT_THAT(product_sizes(info, {3, 4, 5}, cost), ElementsAre(3, 4, 5));
  info.dimensions.front().name = "heads";
  EXPECT_THAT(product_sizes(info, {3, 4, 5}, cost), ElementsAre(1024, 1024, 1024));
  EXPECT_THAT(product_sizes(info, {3, 4, 5}, {.operations = 1e18, .least_bytes = 1}),
              ElementsAre(8192, 8192, 8192));
  EXPECT_THAT(product_sizes(info, {3, 4, 5}, {.operations = 1, .least_bytes = 1}),
              ElementsAre(128, 128, 128));
}

}  // namespace ultra::ladders::rung_run_test
