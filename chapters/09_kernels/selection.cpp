#include "chapters/09_kernels/selection.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "chapters/09_kernels/ladders.hpp"
#include "common/base/errors.hpp"
#include "common/base/text.hpp"
#include "common/base/units.hpp"

namespace ultra::ladders {
namespace {

constexpr double kLongestEmulation = 600;  // seconds

const Ladder& ladder_of(std::string_view name, std::span<const std::unique_ptr<Ladder>> ladders) {
  std::vector<std::string> alike;
  for (const std::unique_ptr<Ladder>& ladder : ladders) {
    if (ladder->info().name == name) {
      return *ladder;
    }
    if (!name.empty() && ladder->info().name.find(name) != std::string::npos) {
      alike.push_back(ladder->info().name);
    }
  }
  if (alike.empty()) {
    throw ConfigError(
        fmt::format("--kernel: there is no ladder {}, expected one of the {} that --list shows, as "
                    "{} or {}",
                    in_quotes(name), ladders.size(), ladders.front()->info().name,
                    ladders.back()->info().name));
  }
  throw ConfigError(fmt::format("--kernel: there is no ladder {}, expected one of: {}",
                                in_quotes(name), fmt::join(alike, ", ")));
}

int find_rung(std::string_view text, const Ladder& ladder) {
  if (const auto number = parse_number<int>(text)) {
    return ladder.rung(*number).number;
  }
  std::vector<std::string> names;
  for (const RungInfo& rung : ladder.rungs()) {
    if (rung.name == text) {
      return rung.number;
    }
    names.push_back(rung.name);
  }
  throw ConfigError(
      fmt::format("--kernel: {} has no rung {}, expected a number from 1 to {} or one of: {}",
                  ladder.info().name, in_quotes(text), names.size(), fmt::join(names, ", ")));
}

int parse_size(std::string_view word, std::string_view text) {
  const auto size = parse_number<int>(word);
  if (!size || *size < 1) {
    throw ConfigError(
        fmt::format("--size {}: {} is no whole number from 1 to 2^31 - 1. Hint: --size 128 for all "
                    "extents, or one for each, --size 128x96x64",
                    in_quotes(text), in_quotes(word)));
  }
  return *size;
}

}  // namespace

Selection select(std::string_view text, std::span<const std::unique_ptr<Ladder>> ladders) {
  const std::size_t slash = text.find('/');
  const Ladder& ladder = ladder_of(text.substr(0, slash), ladders);
  if (slash != std::string_view::npos) {
    return {.ladder = &ladder, .rungs = {find_rung(text.substr(slash + 1), ladder)}};
  }
  std::vector<int> all(ladder.rungs().size());
  std::iota(all.begin(), all.end(), 1);
  return {.ladder = &ladder, .rungs = std::move(all)};
}

std::unique_ptr<Ladder> find_ladder(std::string_view name) {
  std::vector<std::unique_ptr<Ladder>> ladders = all_ladders();
  const Ladder* const found = &ladder_of(name, ladders);
  return std::move(*std::ranges::find(ladders, found, &std::unique_ptr<Ladder>::get));
}

Sizes parse_sizes(std::string_view text, const LadderInfo& ladder) {
  Sizes sizes;
  for (const std::string_view word : split(text, 'x')) {
    sizes.push_back(parse_size(word, text));
  }
  if (sizes.size() == 1) {
    sizes.resize(ladder.dimensions.size(), sizes.front());
  }
  if (sizes.size() != ladder.dimensions.size()) {
    std::vector<std::string> names;
    for (const Dimension& dimension : ladder.dimensions) {
      names.push_back(dimension.name);
    }
    throw ConfigError(fmt::format(
        "--size {}: {} sizes, but {} has {}: {}. Hint: one number sets all", in_quotes(text),
        sizes.size(), ladder.name, names.size(), fmt::join(names, "x")));
  }
  return sizes;
}

std::string to_text(const LadderInfo& ladder, const Sizes& sizes) {
  std::vector<std::string> words;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    words.push_back(fmt::format("{} {}", ladder.dimensions[i].name, sizes[i]));
  }
  return fmt::format("{}", fmt::join(words, " x "));
}

double emulated_seconds(const Cost& cost) {
  constexpr double kOperationsPerSecond = 2.5e7;
  constexpr double kBytesPerSecond = 5e7;
  return cost.operations / kOperationsPerSecond + cost.least_bytes / kBytesPerSecond;
}

void expect_emulable(const Selection& selection, const Sizes& sizes) {
  const double seconds =
      emulated_seconds(selection.ladder->cost(sizes)) * static_cast<double>(selection.rungs.size());
  if (seconds > kLongestEmulation) {
    throw ConfigError(fmt::format(
        "{} with {} might take the emulator {:.2g} hours, more than the {} it is given. Hint: take "
        "smaller sizes (--size), fewer rungs (--kernel LADDER/RUNG), or a GPU (--gpu)",
        selection.ladder->info().name, to_text(selection.ladder->info(), sizes), seconds / 3600,
        format_seconds(kLongestEmulation)));
  }
}

}  // namespace ultra::ladders
