#include "chapters/10_mixed_precision/recipe/wide_sum.hpp"

#include <cstddef>
#include <vector>

#include "common/base/numeric.hpp"
#include "common/comm/collectives/schedule.hpp"
#include "common/comm/device/combine_tensors.hpp"

namespace ultra::mixed_precision {

void all_reduce_wide(const Communicator& group, const Tensor& data) {
  const auto ranks = checked_cast<std::size_t>(group.size());
  const Tensor flat = data.view({data.numel()});
  const comm::Chunks chunks = comm::Chunks::even({0, flat.numel()}, group.size());
  std::vector<std::size_t> counts;
  for (int rank = 0; rank < group.size(); ++rank) counts.push_back(chunks[rank].size());
  const std::size_t own = chunks[group.rank()].size();
  const std::vector<std::size_t> from_each(ranks, own);
  const Tensor terms = Tensor::empty(data.device(), {ranks * own}, data.dtype());
  group.all_to_all_v(flat, counts, terms, from_each);

  const Tensor sum = flat.slice(0, chunks[group.rank()]);
  std::vector<Tensor> sources;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    sources.push_back(terms.slice(0, {rank * own, (rank + 1) * own}));
  }
  comm::combine_tensors(ReduceOp::kSum, sum, sources);
  group.all_gather_v(sum, counts, flat);
}

}  // namespace ultra::mixed_precision
