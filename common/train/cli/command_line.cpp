#include "common/train/cli/command_line.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "common/base/json.hpp"
#include "common/base/text.hpp"
#include "common/train/options/flags.hpp"
#include "common/train/run/agree.hpp"

namespace ultra::train {
namespace {

constexpr const char* kOwnFile = "FILE";
constexpr const char* kOn = "true";  // of a switch
constexpr std::size_t kShownFlags = 3;
constexpr std::size_t kShownBytes = 60;
constexpr int kNoIndent = -1;

std::string shown(const std::string& flag, const std::string& value) {
  if (value.empty()) return "no " + flag;
  if (value == kOn) return flag;
  return fmt::format("{} {}", flag, value.size() > kShownBytes ? in_quotes(value) : value);
}

std::string to_text(const CommandLine& line) {
  const Json text = {{"program", line.program}, {"flags", line.flags}};
  return text.dump(kNoIndent, JsonLetters::kReplaced);  // not all values are UTF-8
}

CommandLine from_text(const std::string& text) {
  const Json line = Json::parse(text);
  return {.program = line.at("program").get<std::string>(),
          .flags = line.at("flags").get<std::map<std::string, std::string>>()};
}

/// Each flag whose values differ, as the two have it.
struct Difference {
  std::vector<std::string> in_one;
  std::vector<std::string> in_other;
};

Difference difference_of(const CommandLine& one, const CommandLine& other) {
  const auto value_in = [](const CommandLine& line, const std::string& flag) {
    const auto found = line.flags.find(flag);
    return found == line.flags.end() ? std::string() : found->second;
  };
  std::map<std::string, std::string> all = one.flags;
  all.insert(other.flags.begin(), other.flags.end());
  Difference difference;
  for (const auto& [flag, value] : all) {
    const std::string a = value_in(one, flag);
    const std::string b = value_in(other, flag);
    if (a == b || difference.in_one.size() == kShownFlags) continue;
    difference.in_one.push_back(shown(flag, a));
    difference.in_other.push_back(shown(flag, b));
  }
  return difference;
}

std::string compare(int rank, const std::string& said, const std::string& by_rank_0) {
  if (said == by_rank_0) return {};
  const CommandLine own = from_text(said);
  const CommandLine first = from_text(by_rank_0);
  if (own.program != first.program) {
    return fmt::format("rank {} runs {}, rank 0 runs {}. Start the same program on every rank.",
                       rank, in_quotes(own.program), in_quotes(first.program));
  }
  const Difference difference = difference_of(own, first);
  return fmt::format(
      "rank {} has {}, rank 0 has {}. Start every rank with the same flags. Only the paths of "
      "--init, --data, --mask, --val-data, --metrics and --trace may differ: models and texts are "
      "compared by what they are, and rank 0 alone writes.",
      rank, fmt::join(difference.in_one, " and "), fmt::join(difference.in_other, " and "));
}

}  // namespace

CommandLine command_line_of(const CLI::App& app, std::span<const FileFlag> own_files) {
  CommandLine line{.program = name_of(app), .flags = values_of(app)};
  for (auto& [flag, value] : line.flags) {
    const bool is_own = std::ranges::find(own_files, flag, &FileFlag::flag) != own_files.end();
    if (is_own) value = kOwnFile;
  }
  return line;
}

void expect_same_command_line(const Communicator& world, const CommandLine& line) {
  expect_same(world, to_text(line), compare);
}

}  // namespace ultra::train
