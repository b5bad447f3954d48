#include "chapters/07_pipeline_parallel/table/pp_table_options.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "chapters/07_pipeline_parallel/schedule/make_schedule.hpp"
#include "chapters/07_pipeline_parallel/schedule/schedule_text.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/programs/command_line.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::pipeline_parallel {
namespace {

using nlohmann::json;

PpTableOptions parse_table(const std::string& line) {
  return ultra::test::options_of<PpTableOptions>(line);
}

TEST(PpTableOptions, PutAllSchedulesSideBySide) {
  const json rows = json::parse(parse_table("--pp-table 4 --pp-table-json").answer({}));
  ASSERT_EQ(rows.size(), all_schedules().size());
  EXPECT_EQ(rows[2].at("schedule"), "1f1b");
  EXPECT_EQ(rows[2].at("bubble_over_ideal"), 0.375);
  EXPECT_EQ(rows[2].at("peak_activations"), 4.0);
  EXPECT_EQ(rows[2].at("messages"), 2 * 8 * 3);
  EXPECT_EQ(rows[6].at("schedule"), "zb-v");
  EXPECT_EQ(rows[6].at("peak_activations"), 4.0) << "in whole stages";
  EXPECT_EQ(rows[6].at("span_seconds"), 24.0) << "no bubble";
  EXPECT_EQ(
      json::parse(
          parse_table("--pp-table 4 --pp-table-json --pp-table-schedules all,search").answer({}))
          .size(),
      rows.size() + 1);
  const std::string table = parse_table("--pp-table 4 --pp-table-micro-batches 6").answer({});
  EXPECT_THAT(table, HasSubstr("zero-bubble-h1"));
  EXPECT_THAT(table, ::testing::Not(HasSubstr("interleaved"))) << "6 is no multiple of 4";
}

TEST(PpTableOptions, DrawSchedules) {
  const std::string text =
      parse_table(
          "--pp-table 2 --pp-table-micro-batches 2 --pp-table-schedules 1f1b,zero-bubble-h1 "
          "--pp-table-chart")
          .answer({});
  EXPECT_THAT(text, HasSubstr("1f1b\n    0 01..aa.bb\n    1 .0aa1bb..\n"));
}

TEST(PpTableOptions, SayWhenActivationsHaveNoRoom) {
  const std::string text = parse_table("--pp-table 4 --pp-table-most-activations 4").answer({});
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const bool is_too_large =
        line.find("afab") != std::string::npos || line.find("interleaved") != std::string::npos ||
        line.find("-h2") != std::string::npos || line.find("dualpipe") != std::string::npos ||
        line.find("breadth-first") != std::string::npos;
    EXPECT_EQ(line.find("too many activations") != std::string::npos, is_too_large) << line;
  }
}

TEST(PpTableOptions, WriteAndReadASchedule) {
  const ultra::test::TemporaryFolder folder;
  const std::string list = folder.path("list.txt");
  const std::string gantt = folder.path("gantt.json");
  const std::string trace = folder.path("trace.json");
  const std::string one = "--pp-table 4 --pp-table-schedules zb-v --pp-table-list " + list;
  static_cast<void>(
      parse_table(one + " --pp-table-gantt " + gantt + " --pp-table-trace " + trace).answer({}));
  EXPECT_EQ(ultra::test::read_file(list),
            text_of(make_schedule({.kind = ScheduleKind::kZbV}, 4, 8)));
  EXPECT_EQ(json::parse(ultra::test::read_file(gantt)).at("actions").size(), 4U * 2 * 8 * 3);
  EXPECT_FALSE(json::parse(ultra::test::read_file(trace)).at("traceEvents").empty());
  const json rows =
      json::parse(parse_table("--pp-table 4 --pp-table-schedules zb-v --pp-table-json "
                              "--pp-table-file " +
                              list)
                      .answer({}));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].at("seconds"), rows[1].at("seconds"));
  EXPECT_EQ(rows[1].at("schedule"), list);
}

constexpr const char* kMeasured = R"({"costs": {"F": [1, 2], "BW": [2, 4], "B": [0, 0],
    "W": [0, 0], "U": [0, 0]}})";

TEST(PpTableOptions, TakeTheTimesOfARun) {
  const ultra::test::TemporaryFolder folder;
  const std::string line =
      "--pp-table 2 --pp-table-micro-batches 3 --pp-table-json "
      "--pp-table-costs " +
      folder.write("gantt.json", kMeasured);
  const json rows = json::parse(parse_table(line).answer({}));
  EXPECT_EQ(rows.size(), 6U) << "those with one chunk per rank";
  EXPECT_EQ(rows[0].at("seconds"), 3 * (3 + 6.0)) << "naive: one after the other";
  EXPECT_EQ(rows[1].at("seconds"), 1 + 3 * 6.0 + 2) << "afab: the second stage is the slower one";
}

TEST(PpTableOptions, NameTheirFiles) {
  EXPECT_TRUE(parse_table("--pp-table 4").files().empty());
  const auto files = parse_table(
                         "--pp-table 4 --pp-table-file f --pp-table-costs c --pp-table-gantt g "
                         "--pp-table-trace t --pp-table-list l")
                         .files();
  std::string named;
  for (const train::FileFlag& file : files) {
    named +=
        file.flag + " " + file.path + (file.use == train::FileUse::kAnswer ? " is written;" : ";");
  }
  EXPECT_EQ(named,
            "--pp-table-file f;--pp-table-costs c;--pp-table-gantt g is written;"
            "--pp-table-trace t is written;--pp-table-list l is written;");
}

TEST(PpTableOptions, RefusalsSayWhatDoesNotFit) {
  const ultra::test::TemporaryFolder folder;
  const std::string file = folder.write("mine.txt", "F0 BW0\nF0 BW0\n");
  const std::string measured = folder.write("gantt.json", kMeasured);
  const std::string broken = folder.write("broken.txt", "F0 BW0\nBW0 F0\n");
  ultra::test::expect_refused<PpTableOptions>(
      {{"--pp-table-head 1", {"--pp-table-head needs --pp-table STAGES"}},
       {"--pp-table 0", {"--pp-table", "1"}},
       {"--pp-table 4,x", {"'x' is not a whole number"}},
       {"--pp-table 9999", {"--pp-table", "1024"}},
       {"--pp-table 4 --pp-table-schedules gpipe", {"no schedule 'gpipe'"}},
       {"--pp-table 4 --pp-table-micro-batches 6 --pp-table-schedules interleaved:2",
        {"6 % 4 = 2", "4 or 8"}},
       {"--pp-table 1024 --pp-table-micro-batches 65536", {"takes at most 262144. Choose fewer"}},
       {"--pp-table 64 --pp-table-micro-batches 128 --pp-table-schedules search",
        {"a search takes at most 4096"}},
       {"--pp-table 4 --pp-table-schedules search --pp-table-most-activations 0.5",
        {"no schedule of 4 stages keeps to 0.5"}},
       {"--pp-table 4 --pp-table-forward 0", {"--pp-table-forward"}},
       {"--pp-table 4 --pp-table-gantt " + file + ".json",
        {"--pp-table-gantt writes one schedule, but there are 10"}},
       {"--pp-table 4 --pp-table-gantt /nowhere/gantt.json", {"/nowhere/gantt.json"}},
       {"--pp-table 4 --pp-table-file " + file, {"has lines for 2 stages. Write --pp-table 2"}},
       {"--pp-table 2 --pp-table-file " + file,
        {"has 1 micro-batches. Write --pp-table-micro-batches 1"}},
       {"--pp-table 2 --pp-table-costs " + file, {"has no costs of a pipeline's parts"}},
       {"--pp-table 3 --pp-table-schedules 1f1b --pp-table-costs " + measured,
        {"times of 2 parts, but schedule 1f1b on 3 stages has 3"}},
       {"--pp-table 2,4 --pp-table-costs " + measured,
        {"times of 2 parts", "none of the schedules cuts the model for 4 stages into so many",
         "the stages of the run that was measured"}},
       {"--pp-table 4 --pp-table-micro-batches 6 "
        "--pp-table-schedules interleaved:2,interleaved:3",
        {"none of the schedules is one of 6 micro-batches on 4 stages", "a multiple of 4"}},
       {"--pp-table 2 --pp-table-schedules search --pp-table-costs " + measured,
        {"the search cuts the model in several ways"}},
       {"--pp-table 2 --pp-table-file " + broken, {"stage 1, action 1 of 2, BW0"}}},
      [](const PpTableOptions& options) {
        options.validate();
        try {
          static_cast<void>(options.answer({}));
        } catch (const FileError& error) {
          throw ConfigError(error.what());
        }
      });
  EXPECT_FALSE(std::filesystem::exists(file + ".json"));
  EXPECT_THROW(static_cast<void>(parse_table("--pp-table 2 --pp-table-file /nowhere").answer({})),
               FileError);
  EXPECT_THROW(
      static_cast<void>(parse_table("--pp-table 2 --pp-table-file " + folder.path()).answer({})),
      FileError);
}

}  // namespace
}  // namespace ultra::pipeline_parallel
