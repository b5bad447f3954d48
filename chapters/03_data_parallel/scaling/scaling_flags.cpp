#include "chapters/03_data_parallel/scaling/scaling_flags.hpp"

#include <cmath>

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

void expect_between(std::string_view flag, std::size_t value, std::size_t least, std::size_t most) {
  if (value < least || value > most) {
    throw ConfigError(fmt::format("{} is {}. It must be from {} to {}.", flag, value, least, most));
  }
}

void expect_positive(std::string_view flag, double value, std::string_view unit) {
  if (!(value > 0.0) || !std::isfinite(value)) {
    throw ConfigError(fmt::format("{} is {:g}{}. It must be above 0.", flag, value, unit));
  }
}

void expect_part(std::string_view flag, double value) {
  if (!(value > 0.0 && value <= 1.0)) {
    throw ConfigError(fmt::format("{} is {:g}. It must be above 0 and at most 1.", flag, value));
  }
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

void expect_one_node(std::string_view ranks, const Topology& machine) {
  machine.validate();
  if (machine.is_torus() || machine.nodes != 1) {
    throw ConfigError(
        fmt::format("{0}-machine describes one node: {0} says how many there are. Found {1}.",
                    ranks, machine.describe()));
  }
}

}  // namespace ultra::data_parallel
