#include "chapters/07_pipeline_parallel/lists/schedules.hpp"

namespace ultra::pipeline_parallel {

RankList breadth_first_list(const InterleavedRank& rank, std::size_t micro_batches) {
  ListBuilder list(rank.chunks, micro_batches);
  for (std::size_t chunk = 0; chunk < rank.chunks; ++chunk) {
    for (std::size_t i = 0; i < micro_batches; ++i) list.forward(chunk);
  }
  for (std::size_t chunk = rank.chunks; chunk-- > 0;) {
    for (std::size_t i = 0; i < micro_batches; ++i) list.backward(chunk);
  }
  return list;
}

}  // namespace ultra::pipeline_parallel
