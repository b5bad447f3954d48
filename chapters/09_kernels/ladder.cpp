#include "chapters/09_kernels/ladder.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "common/base/errors.hpp"

namespace ultra::ladders {

std::size_t element_count(const Sizes& extents) {
  std::size_t count = 1;
  for (const int extent : extents) {
    count *= static_cast<std::size_t>(extent);
  }
  return count;
}

const RungInfo& Ladder::rung(int number) const {
  const std::span<const RungInfo> all = rungs();
  if (number < 1 || number > static_cast<int>(all.size())) {
    throw ConfigError(fmt::format("{} has no rung {}, expected 1 to {}. Hint: --list shows them",
                                  info().name, number, all.size()));
  }
  return all[static_cast<std::size_t>(number - 1)];
}

Sizes Ladder::default_sizes(simt::Executor executor) const {
  Sizes sizes;
  for (const Dimension& dimension : info().dimensions) {
    sizes.push_back(executor == simt::Executor::kGpu ? dimension.gpu : dimension.emulated);
  }
  return sizes;
}

void Ladder::check_sizes(const Sizes& sizes) const {
  const std::vector<Dimension>& dimensions = info().dimensions;
  const bool are_positive = std::ranges::all_of(sizes, [](int size) { return size > 0; });
  if (sizes.size() != dimensions.size() || !are_positive) {
    std::vector<std::string> names;
    for (const Dimension& dimension : dimensions) {
      names.push_back(dimension.name);
    }
    throw ConfigError(fmt::format("the sizes of {} are {}, expected {} positive numbers: {}",
                                  info().name, fmt::join(sizes, "x"), names.size(),
                                  fmt::join(names, "x")));
  }
}

}  // namespace ultra::ladders
