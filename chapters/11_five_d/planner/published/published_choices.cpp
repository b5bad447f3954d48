#include "chapters/11_five_d/planner/published/published_choices.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "chapters/11_five_d/planner/search/layout_search.hpp"
#include "common/base/errors.hpp"
#include "common/base/json_fields.hpp"
#include "common/base/text.hpp"
#include "common/base/units.hpp"

namespace ultra::planner {
namespace {

const ComparedRow& row_called(const std::vector<ComparedRow>& rows, const std::string& id,
                              const std::string& where) {
  const auto found =
      std::ranges::find_if(rows, [&](const ComparedRow& one) { return one.row.id == id; });
  if (found != rows.end()) return *found;
  throw FileError(fmt::format("{}: no row is called {}.", where, in_quotes(id)));
}

/// Seconds for the same work: a step's, or those behind a speed.
double seconds(const PublishedRow& row, double value) {
  return row.unit == SpeedUnit::kSeconds ? value : 1 / value;
}

double published_seconds(const ComparedRow* one) { return seconds(one->row, one->row.speed); }
double predicted_seconds(const ComparedRow* one) { return seconds(one->row, one->predicted); }

/// By what part the second of them takes longer than the first.
template <class Seconds>
double apart(const std::vector<const ComparedRow*>& rows, const Seconds& seconds_of) {
  std::vector<double> all;
  for (const ComparedRow* row : rows) all.push_back(seconds_of(row));
  std::ranges::sort(all);
  return all.size() < 2 ? 0 : all[1] / all[0] - 1;
}

SearchSpace space_of(const PublishedRow& row) {
  SearchSpace space{.gpus = row.layout.gpus(), .most_cp = 1};
  space.schedules = {row.layout.schedule.kind};
  space.recomputations = {row.layout.recompute};
  space.most_zero = zero::ZeroStage::kOptimizer;
  space.orders = {row.layout.outermost};
  return space;
}

}  // namespace

std::vector<MeasuredChoice> measured_choices(const std::string& path,
                                             const std::vector<ComparedRow>& rows) {
  std::vector<MeasuredChoice> all;
  for (const JsonFields& choice : JsonFields::of_file(path).objects("choices")) {
    std::vector<const ComparedRow*> members;
    const std::string ids = choice.text("rows");
    for (const std::string_view id : split(ids, ' ')) {
      members.push_back(&row_called(rows, std::string(id), choice.where()));
    }
    const ComparedRow* chosen = *std::ranges::min_element(members, {}, predicted_seconds);
    const ComparedRow* best = *std::ranges::min_element(members, {}, published_seconds);
    all.push_back({.what = choice.text("what"),
                   .chosen = chosen->row.id,
                   .best = best->row.id,
                   .lost = 1 - published_seconds(best) / published_seconds(chosen),
                   .apart = apart(members, published_seconds),
                   .believed = apart(members, predicted_seconds)});
  }
  return all;
}

std::vector<OwnChoice> own_choices(const std::vector<ComparedRow>& rows, const std::string& group) {
  std::vector<OwnChoice> all;
  for (const ComparedRow& one : rows) {
    if (one.row.group != group) continue;
    SearchResult found = search_layouts(one.row.question, space_of(one.row), 1);
    if (found.best.empty()) continue;
    all.push_back(
        {.id = one.row.id, .published = one.prediction, .own = std::move(found.best.front())});
  }
  return all;
}

std::string choices_to_markdown(const std::vector<MeasuredChoice>& measured,
                                const std::vector<OwnChoice>& own) {
  std::string text =
      "\n## Choices among what was measured\n\n"
      "The last columns say how easy a choice was: by how much the second best took longer, as "
      "measured and as predicted.\n\n"
      "| training | the planner's choice | the best that was measured | speed lost by the choice "
      "| second best, measured | predicted |\n"
      "|---|---|---|---|---|---|\n";
  for (const MeasuredChoice& one : measured) {
    text +=
        fmt::format("| {} | {} | {} | {:.1f} % | +{:.0f} % | +{:.0f} % |\n", one.what, one.chosen,
                    one.best, kPercent * one.lost, kPercent * one.apart, kPercent * one.believed);
  }
  const auto agreed = std::ranges::count_if(
      own, [](const OwnChoice& one) { return one.own.layout.str() == one.published.layout.str(); });
  text += fmt::format(
              "\n## The Playbook's best, and the planner's own\n\nThe two agree in {} of {} "
              "rows. The gain is the planner's belief: the source published the best of each "
              "only, and may well have measured some of the planner's.\n\n",
              agreed, own.size()) +
          "| row | published | the planner's | gain |\n|---|---|---|---|\n";
  for (const OwnChoice& one : own) {
    text += fmt::format("| {} | {} | {} | {:.1f} % |\n", one.id, one.published.layout.str(),
                        one.own.layout.str(), kPercent * one.gain());
  }
  return text;
}

Json choices_to_json(const std::vector<MeasuredChoice>& measured,
                     const std::vector<OwnChoice>& own) {
  Json json = {{"choices", Json::array()}, {"own", Json::array()}};
  for (const MeasuredChoice& one : measured) {
    json["choices"].push_back({{"training", one.what},
                               {"choice", one.chosen},
                               {"best", one.best},
                               {"lost", one.lost},
                               {"apart", one.apart},
                               {"believed", one.believed}});
  }
  for (const OwnChoice& one : own) {
    json["own"].push_back({{"row", one.id},
                           {"published", one.published.layout.str()},
                           {"planned", one.own.layout.str()},
                           {"gain", one.gain()}});
  }
  return json;
}

}  // namespace ultra::planner
