// The planner beside what others measured: the promise of the chapter.
//
// Covers: chapters/11_five_d/planner/published/published_rows.hpp, published_table.hpp,
// published_choices.hpp
#include "chapters/11_five_d/planner/published/published_rows.hpp"

#include <map>
#include <set>

#include "chapters/11_five_d/planner/published/published_choices.hpp"
#include "chapters/11_five_d/planner/published/published_table.hpp"
#include "chapters/11_five_d/planner/search/layout_search.hpp"
#include "tests/support/expect_message.hpp"
#include "tests/support/files/temporary_folder.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::planner {
namespace {

class PublishedRows : public ::testing::Test {
 protected:
  static const std::vector<ComparedRow>& rows() {
    static const std::vector<ComparedRow> all = compare_all(published_rows_path());
    return all;
  }
  static const ComparedRow& row(const std::string& id) {
    for (const ComparedRow& one : rows()) {
      if (one.row.id == id) return one;
    }
    throw InternalError("no row of that name");
  }
  static std::vector<double> ratios(const std::function<bool(const PublishedRow&)>& wanted) {
    std::vector<double> all;
    for (const ComparedRow& one : rows()) {
      if (one.row.unit && wanted(one.row)) all.push_back(one.speed_ratio);
    }
    return all;
  }
};

TEST_F(PublishedRows, MedianErrorOfTimeIsATenthAtMost) {
  const auto reference = ratios([](const PublishedRow& r) { return !r.fitted && r.in_reference; });
  EXPECT_GE(reference.size(), 30U);
  EXPECT_LE(median_error(reference), 0.10);
}

TEST_F(PublishedRows, OfTablesThatWereLookedUpLaterToo) {
  const auto others = ratios([](const PublishedRow& r) { return !r.in_reference; });
  EXPECT_GE(others.size(), 25U);
  EXPECT_LE(median_error(others), 0.10);
}

TEST_F(PublishedRows, MedianErrorOfMemoryIsATenthAtMost) {
  std::vector<double> all;
  for (const ComparedRow& one : rows()) {
    if (one.row.memory_bytes) all.push_back(one.memory_ratio);
  }
  EXPECT_EQ(all.size(), 15U);
  EXPECT_LE(median_error(all), 0.10);
}

TEST_F(PublishedRows, FewRowsAreFitted) {
  EXPECT_LE(ratios([](const PublishedRow& r) { return r.fitted; }).size(), 7U);
  for (const ComparedRow& one : rows()) {
    EXPECT_FALSE(one.row.fitted && !one.row.in_reference) << one.row.id;
  }
}

TEST_F(PublishedRows, RowsThatAreFarOffSayWhy) {
  for (const ComparedRow& one : rows()) {
    if (!one.row.unit || std::abs(one.speed_ratio - 1) <= 0.2) continue;
    EXPECT_FALSE(one.row.remark.empty()) << one.row.id << " " << one.speed_ratio;
  }
}

TEST_F(PublishedRows, ChoicesAmongWhatWasMeasured) {
  // Layouts of the same training, all of them measured: the one that the planner believes fastest is
  // the fastest that was measured, or within 5 % of it.
  const auto choices = measured_choices(published_rows_path(), rows());
  EXPECT_GE(choices.size(), 10U);
  for (const MeasuredChoice& choice : choices) {
    EXPECT_LE(choice.lost, 0.05) << choice.what << ": " << choice.chosen;
    EXPECT_GE(choice.lost, 0) << choice.what;
  }
}

TEST_F(PublishedRows, SaysHowEasyAChoiceWas) {
  // Korthikanti et al. 2022, table 5: 18.13 s and 13.75 s for 175 billion parameters.
  for (const MeasuredChoice& choice : measured_choices(published_rows_path(), rows())) {
    EXPECT_GT(choice.apart, 0) << choice.what;
    EXPECT_GT(choice.believed, 0) << choice.what;
    if (choice.what == "GPT 175B on 64 A100: recomputation") {
      EXPECT_NEAR(choice.apart, 18.13 / 13.75 - 1, 1e-9);
    }
  }
}

TEST_F(PublishedRows, TheTableSaysHowOftenItAgreesWithThePlaybook) {
  const auto own = own_choices(rows(), kPlaybookGroup);
  const auto agreed = std::ranges::count_if(
      own, [](const OwnChoice& one) { return one.own.layout.str() == one.published.layout.str(); });
  EXPECT_THAT(choices_to_markdown({}, own), HasSubstr(fmt::format("agree in {} of 15", agreed)));
}

TEST_F(PublishedRows, SixConstantsWereFittedOnSevenRows) {
  std::map<std::string, int> fitted;
  for (const ComparedRow& one : rows()) fitted[one.row.group] += one.row.fitted ? 1 : 0;
  EXPECT_EQ(fitted["Korthikanti"], 3);
  EXPECT_EQ(fitted["Playbook"], 4);
  EXPECT_EQ(ratios([](const PublishedRow& r) { return r.fitted; }).size(), 7U);
  EXPECT_THAT(published_to_markdown(rows()), HasSubstr("Six\n  constants on seven rows"));
}

TEST_F(PublishedRows, ThePlaybooksBestAreAmongItsBest) {
  // Nobody published the others: the planner's own choice in the same program may be better by its
  // own word, but not by much.
  std::vector<double> ratios_of_speed;
  for (const OwnChoice& one : own_choices(rows(), kPlaybookGroup)) {
    EXPECT_GE(one.gain(), -1e-9) << one.id;
    ratios_of_speed.push_back(1 + one.gain());
  }
  EXPECT_EQ(ratios_of_speed.size(), 15U);
  EXPECT_LE(median_error(ratios_of_speed), 0.20);
}

TEST_F(PublishedRows, DeepseeksLayoutIsAlmostItsBest) {
  // Nobody has measured another layout of this training: what can be said is how much faster the
  // planner believes that its own is, and how far its time of the published one is from the report.
  constexpr double kOwnIsFasterByAtMost = 0.06;
  constexpr double kFromTheReport = 0.10;
  const ComparedRow& published = row("deepseek-v3");
  const SearchResult found =
      search_layouts(published.row.question, {.gpus = published.row.layout.gpus()}, 1);
  ASSERT_FALSE(found.best.empty());
  const double own = found.best.front().step.total();
  EXPECT_LE(published.prediction.step.total() / own - 1, kOwnIsFasterByAtMost)
      << found.best.front().layout.str();
  EXPECT_NEAR(published.speed_ratio, 1, kFromTheReport);
  // The report's reasons: tp is not needed; experts are on many ranks, as no GPU could hold them.
  SearchSpace without_tp{.gpus = published.row.layout.gpus()};
  without_tp.only.tp = {1};
  const SearchResult others = search_layouts(published.row.question, without_tp, 1);
  ASSERT_FALSE(others.best.empty());
  EXPECT_LE(others.best.front().step.total() / own - 1, 0.02);
  EXPECT_GT(found.best.front().layout.ep, 1U);
}

TEST_F(PublishedRows, TheTableHasEveryRowAndItsReasons) {
  const std::string table = published_to_markdown(rows());
  std::set<std::string> ids;
  for (const ComparedRow& one : rows()) {
    EXPECT_TRUE(ids.insert(one.row.id).second) << one.row.id;
    EXPECT_THAT(table, HasSubstr("| " + one.row.id + " |"));
  }
  EXPECT_THAT(table, HasSubstr("**reference rows**"));
  const Json json = published_to_json(rows());
  EXPECT_EQ(json["rows"].size(), rows().size());
  EXPECT_LE(json["median_error"].get<double>(), 0.10);
  for (const Json& one : json["rows"].elements()) {
    const std::string remark = row(one["id"].get<std::string>()).row.remark;
    const Json* const said = one.find("remark");
    EXPECT_EQ(said == nullptr ? "" : said->get<std::string>(), remark);
  }
}

TEST_F(PublishedRows, ChoicesAsJson) {
  const std::vector<MeasuredChoice> measured = {
      {.what = "a", .chosen = "b", .best = "c", .lost = 0.04, .apart = 0.3, .believed = 0.1}};
  const OwnChoice own{.id = "d", .published = rows()[0].prediction, .own = rows()[1].prediction};
  const Json json = choices_to_json(measured, {own});
  EXPECT_EQ(json["choices"][0]["choice"], "b");
  EXPECT_EQ(json["choices"][0]["lost"], 0.04);
  EXPECT_EQ(json["choices"][0]["apart"], 0.3);
  EXPECT_EQ(json["choices"][0]["believed"], 0.1);
  EXPECT_EQ(json["own"][0]["planned"], rows()[1].prediction.layout.str());
  EXPECT_EQ(json["own"][0]["gain"], own.gain());
}

TEST(MedianError, OddEvenAndNone) {
  EXPECT_EQ(median_error({}), 0);
  EXPECT_NEAR(median_error({1.3, 0.9, 1.0}), 0.1, 1e-12);
  EXPECT_NEAR(median_error({1.3, 0.9, 1.0, 1.2}), 0.15, 1e-12);
}

TEST(PublishedFile, ChoicesAreOfRowsThatThereAre) {
  const ultra::test::TemporaryFolder folder;
  const std::string path =
      folder.write("rows.json", R"({"choices": [{"what": "a", "rows": "here there"}]})");
  test::expect_message<FileError>([&] { (void)measured_choices(path, {}); },
                                  {"\"choices\" number 1", "no row is called 'here'"});
}

TEST(PublishedFile, WhatIsWrongIsNamed) {
  const ultra::test::TemporaryFolder folder;
  const auto refuses = [&](const std::string& row, const std::vector<std::string>& words) {
    const std::string path = folder.write("rows.json", "{\"rows\": [" + row + "]}");
    test::expect_message<FileError>([&] { (void)read_published_rows(path); }, words);
  };
  const std::string start =
      R"({"id": "a", "source": "b", "group": "c", "seq": 2048, "batch": 8, "software": "modern",)";
  refuses(start + R"("model": "llama-9b", "cluster": "dgx-a100"})", {"number 1", "llama-9b"});
  refuses(start + R"("model": "llama-8b", "cluster": "dgx-z"})", {"dgx-z"});
  refuses(start + R"("model": "llama-8b", "cluster": "dgx-a100", "zero": 4})", {"\"zero\" is 4"});
  refuses(start + R"("model": "llama-8b", "cluster": "dgx-a100", "dp": 3})",
          {"must be a multiple of dp x micro-batch 3"});
  refuses(R"({"id": "a"})", {"lacks"});
}

}  // namespace
}  // namespace ultra::planner
