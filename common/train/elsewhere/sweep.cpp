#include "common/train/elsewhere/sweep.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "common/base/errors.hpp"
#include "common/base/json.hpp"
#include "common/base/text.hpp"
#include "common/base/units.hpp"
#include "common/train/options/conflict.hpp"

namespace ultra::train {
namespace {

constexpr std::size_t kMostLines = 1000;

/// A word that holds a list, or stands in one line of the sweep for all.
struct Place {
  std::size_t word;                   // index
  std::string before;                 // "--tp=", or nothing
  std::vector<std::string> variants;  // of what stands behind
};

std::vector<std::string> variants_of(std::string_view value) {
  std::vector<std::string> variants;
  for (const std::string_view part : split(value, ',')) variants.emplace_back(part);
  return variants;
}

OnMemory fullest(const OnReport& report) {
  return *std::ranges::max_element(report.memory, {},
                                   [](const OnMemory& rank) { return rank.at_peak.total(); });
}

}  // namespace

Sweep sweep_of(const std::vector<std::string>& words, const ReadsValue& reads) {
  Sweep sweep;
  std::vector<Place> places;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!words[i].starts_with("--")) continue;
    const std::size_t equals = words[i].find('=');
    const bool is_one_word = equals != std::string::npos;
    if (!is_one_word && (i + 1 == words.size() || words[i + 1].starts_with("--"))) continue;
    const std::string flag = words[i].substr(0, equals);
    const std::string value = is_one_word ? words[i].substr(equals + 1) : words[i + 1];
    if (flag == kOnFlag || value.find(',') == std::string::npos || reads(flag, value)) continue;
    sweep.flags.push_back(flag);
    places.push_back({.word = is_one_word ? i : i + 1,
                      .before = is_one_word ? flag + "=" : "",
                      .variants = variants_of(value)});
  }
  std::size_t count = 1;
  for (const Place& place : places) {
    count *= place.variants.size();
    if (count <= kMostLines) continue;
    throw ConfigError(fmt::format("{} have more than {} combinations of values. Give fewer.",
                                  fmt::join(sweep.flags, ", "), kMostLines));
  }
  for (std::size_t line = 0; line < count; ++line) {
    std::vector<std::string>& own = sweep.lines.emplace_back(words);
    std::vector<std::string>& values = sweep.values.emplace_back(places.size());
    std::size_t rest = line;
    for (std::size_t p = places.size(); p-- > 0;) {
      const Place& place = places[p];
      values[p] = place.variants[rest % place.variants.size()];
      rest /= place.variants.size();
      own[place.word] = place.before + values[p];
    }
  }
  return sweep;
}

std::string sweep_to_text(const Sweep& sweep, const std::vector<SweepRow>& rows) {
  std::vector<std::size_t> widths;
  for (std::size_t f = 0; f < sweep.flags.size(); ++f) {
    std::size_t width = sweep.flags[f].size();
    for (const SweepRow& row : rows) width = std::max(width, row.values[f].size());
    widths.push_back(width);
  }
  std::string text;
  for (std::size_t f = 0; f < sweep.flags.size(); ++f) {
    text += fmt::format("{:>{}}  ", sweep.flags[f], widths[f]);
  }
  text += fmt::format("{:>7}  {:>6}  {:>10}  {:>12}  {:>7}  {:>9}  {:>9}\n", "GB", "of", "a step",
                      "tokens/s", "of peak", "exchanges", "stages");
  for (const SweepRow& row : rows) {
    for (std::size_t f = 0; f < sweep.flags.size(); ++f) {
      text += fmt::format("{:>{}}  ", row.values[f], widths[f]);
    }
    if (!row.error.empty()) {
      text += row.error + "\n";
      continue;
    }
    const OnReport& report = row.report;
    const auto share = [&](double seconds) {
      return fmt::format("{:.1f} %", 100 * seconds / report.seconds);
    };
    text += fmt::format("{:>7.1f}  {:>6.1f}  {:>10}  {:>12.0f}  {:>7.2f}  {:>9}  {:>9}\n",
                        static_cast<double>(fullest(report).at_peak.total()) / 1e9,
                        report.memory_bytes / 1e9, format_seconds(report.seconds),
                        static_cast<double>(report.tokens) / report.seconds, report.part_of_peak(),
                        share(report.exchanges_waited()), share(report.stage));
  }
  return text + "\nGB of the fullest rank; exchanges and stages: waited for them, of a step.\n";
}

std::string sweep_to_json(const Sweep& sweep, const std::vector<SweepRow>& rows) {
  Json list = Json::array();
  for (const SweepRow& row : rows) {
    Json flags = Json::object();
    for (std::size_t f = 0; f < sweep.flags.size(); ++f) flags[sweep.flags[f]] = row.values[f];
    Json entry = row.error.empty() ? to_json(row.report) : Json{{"error", row.error}};
    entry["flags"] = std::move(flags);
    list.push_back(std::move(entry));
  }
  return list.dump(2) + "\n";
}

}  // namespace ultra::train
