#include "common/data/documents.hpp"

namespace ultra::data {

void Documents::begins_into(std::size_t number, std::span<std::int32_t> begins) const {
  std::int32_t begin = 0;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    const bool is_first = i > 0 && stream_.below(number * begins.size() + i, mean_len_) == 0;
    if (is_first) begin = static_cast<std::int32_t>(i);
    begins[i] = begin;
  }
}

}  // namespace ultra::data
