// The exam: steps that the planner had not seen when they were entered.
//
// Covers: chapters/11_five_d/planner/published/exam.hpp
#include "chapters/11_five_d/planner/published/exam.hpp"

#include <set>

#include "chapters/11_five_d/planner/search/layout_search.hpp"
#include "tests/support/expect_message.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::planner {
namespace {

const std::vector<ExamTable>& exam() {
  static const std::vector<ExamTable> taken = take_exam(exam_path());
  return taken;
}

const Json& group(const Json& answer, const std::string& name) {
  for (const Json& one : answer["groups"].elements()) {
    if (one["group"] == name) return one;
  }
  throw InternalError("no group of that name");
}

TEST(Exam, EachRowIsThereOnceWithWhatWasSaidOnTheDayOfItsEntry) {
  std::set<std::string> ids;
  for (const ExamTable& table : exam()) {
    ASSERT_EQ(table.entered.size(), table.rows.size());
    for (std::size_t i = 0; i < table.rows.size(); ++i) {
      const ComparedRow& one = table.rows[i];
      EXPECT_TRUE(ids.insert(one.row.id).second) << one.row.id;
      EXPECT_GT(table.entered[i].speed, 0) << one.row.id;
      EXPECT_EQ(table.entered[i].memory > 0, one.row.memory_bytes.has_value()) << one.row.id;
    }
  }
  EXPECT_EQ(ids.size(), 202U);
}

TEST(Exam, OfAProgramThatNoPresetKnewWithTwoConstantsFitted) {
  int fitted = 0;
  for (const ExamTable& table : exam()) {
    for (const ComparedRow& one : table.rows) fitted += one.row.fitted ? 1 : 0;
  }
  EXPECT_EQ(fitted, 2);
  const Json answer = exam_to_json(exam());
  EXPECT_LE(group(answer, "torchtitan")["today"]["median"].get<double>(), 0.12);
  // More than half of the memory was missing in some rows when they were entered.
  EXPECT_LT(group(answer, "torchtitan")["memory_entered"]["worst"].get<double>(), 0.5);
  EXPECT_GE(group(answer, "torchtitan")["memory_today"]["worst"].get<double>(), 0.85);
  EXPECT_LE(group(answer, "torchtitan")["memory_today"]["median"].get<double>(), 0.05);
}

TEST(Exam, APlanSaysHowFarOffItMayBe) {
  const Json answer = exam_to_json(exam());
  EXPECT_GT(kTypicalError, group(answer, "vTrain")["today"]["median"].get<double>());
  EXPECT_LT(kTypicalError, group(answer, "LLM.Q")["today"]["median"].get<double>());
  EXPECT_NEAR(kTypicalError, group(answer, "torchtitan")["today"]["median"].get<double>(), 0.02);
}

TEST(Exam, ErrorsOfRatios) {
  EXPECT_FALSE(exam_errors({}).has_value());
  const auto errors = exam_errors({1.1, 0.7, 1.2});
  ASSERT_TRUE(errors.has_value());
  EXPECT_NEAR(errors->median, 0.2, 1e-12);
  EXPECT_NEAR(errors->mean, 0.2, 1e-12);
  EXPECT_EQ(errors->worst, 0.7);
}

TEST(Exam, RegretIsOfTheRowThatThePlannerBelievesFastest) {
  ExamTable table;
  for (const auto& [published, predicted] : {std::pair{10.0, 9.0}, {8.0, 9.5}, {12.0, 11.0}}) {
    ComparedRow row = exam().front().rows.front();
    row.row.speed = published;
    row.predicted = predicted;
    table.rows.push_back(row);
  }
  EXPECT_NEAR(regret(table), 1 - 8.0 / 10, 1e-12);
}

TEST(Exam, ThePageSaysWhereRowsComeFrom) {
  const std::string page = exam_to_markdown(exam());
  for (const ExamTable& table : exam()) {
    EXPECT_THAT(page, HasSubstr("## " + table.group));
    EXPECT_THAT(page, HasSubstr(table.source));
    for (const ComparedRow& one : table.rows)
      EXPECT_THAT(page, HasSubstr("| " + one.row.id + " |"));
  }
}

TEST(ExamFile, WhatIsWrongIsNamed) {
  const ultra::test::TemporaryFolder folder;
  const auto refuses = [&](const std::string& text, const std::vector<std::string>& words) {
    const std::string path = folder.write("exam.json", text);
    test::expect_message<FileError>([&] { (void)take_exam(path); }, words);
  };
  refuses("{}", {"exam.json", "tables"});
  const std::string table =
      R"({"tables": [{"group": "a", "source": "b", "defaults": {"model": "llama-8b", "cluster": "h200",
          "software": "modern", "seq": 2048, "batch": 8}, "columns": ["id", "micro_batch", "seconds"],
          "rows": )";
  refuses(table + "[[\"x\", 1]]}]}", {"table 1: row 1 has 2 values", "3 columns"});
  refuses(table + "[[\"x\", 1, 2], [\"y\", 3, 2]]}]}", {"table 1: row 2", "must be a multiple"});
}

}  // namespace
}  // namespace ultra::planner
