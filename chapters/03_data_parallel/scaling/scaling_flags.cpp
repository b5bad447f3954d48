#include "chapters/03_data_parallel/scaling/scaling_flags.hpp"

#include <fmt/format.h>

#include "common/base/errors.hpp"
#include "common/base/text.hpp"

namespace ultra::data_parallel {

using collectives::Topology;

Topology node_of(std::string_view ranks, const std::string& text) {
  const std::string flag = fmt::format("{}-machine", ranks);
  for (const std::string_view entry : split(text, ',')) {
    if (entry.starts_with("nodes=")) {
      throw ConfigError(fmt::format("{} {}: leave out {}. {} says how many nodes there are.", flag,
                                    in_quotes(text), in_quotes(entry), ranks));
    }
  }
  return train::under_flag(flag, "--simulate", [&] { return collectives::parse_topology(text); });
}

void expect_ascending(std::span<const int> numbers, const RankNumbers& allowed) {
  const auto& [flag, example, most, bounds] = allowed;
  if (numbers.empty()) {
    throw ConfigError(fmt::format("{} is empty. Write for example {}.", flag, example));
  }
  int before = 0;
  for (const int number : numbers) {
    if (number < 1 || number > most) {
      throw ConfigError(fmt::format("{} {}: {}.", flag, number, bounds));
    }
    if (number <= before) {
      throw ConfigError(fmt::format("{} must ascend: {} comes after {}.", flag, number, before));
    }
    before = number;
  }
}

}  // namespace ultra::data_parallel
