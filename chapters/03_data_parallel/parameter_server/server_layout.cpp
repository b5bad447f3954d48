#include "chapters/03_data_parallel/parameter_server/server_layout.hpp"

#include <algorithm>

#include "common/base/errors.hpp"
#include "common/base/numeric.hpp"

namespace ultra::data_parallel {

std::vector<Slice> slice_parameters(std::span<const std::size_t> counts, std::size_t capacity,
                                    int servers) {
  ensure(servers >= 1, "somebody keeps the weights");
  std::vector<std::size_t> load(checked_cast<std::size_t>(servers), 0);
  std::vector<Slice> slices;
  for (std::size_t parameter = 0; parameter < counts.size(); ++parameter) {
    const std::size_t count = counts[parameter];
    const std::size_t pieces = capacity == 0 ? 1 : ceil_div(count, capacity);
    const std::size_t size = ceil_div(count, std::max<std::size_t>(pieces, 1));
    for (std::size_t begin = 0; begin < count; begin += size) {
      const Range elements{begin, std::min(begin + size, count)};
      const auto least = std::ranges::min_element(load);
      *least += elements.size();
      slices.push_back({.parameter = parameter,
                        .elements = elements,
                        .server = checked_cast<int>(least - load.begin())});
    }
  }
  return slices;
}

std::vector<std::size_t> slices_of_server(std::span<const Slice> slices, int server) {
  std::vector<std::size_t> own;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (slices[i].server == server) own.push_back(i);
  }
  return own;
}

Tensor elements_of(const Slice& slice, const Tensor& parameter) {
  return parameter.view({parameter.numel()}).slice(0, slice.elements);
}

}  // namespace ultra::data_parallel
