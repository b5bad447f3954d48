#include "common/ops/sums/tree_sum.hpp"

#include "common/ops/elementwise.hpp"
#include "common/ops/sums/sum_tree.hpp"

namespace ultra::ops {

Tensor tree_sum(const Tensor& x, int dim) {
  const auto join = [](const Tensor& left, const Tensor& right) {
    add_into(left, right);
    return left;
  };
  NodeCounter<Tensor, decltype(join)> nodes(join);
  for (std::size_t place = 0; place < x.size(dim); ++place) {
    const Tensor own = x.slice(dim, {place, place + 1});
    const Tensor wide = Tensor::empty(x.device(), own.shape(), accumulation_dtype(x.dtype()));
    cast_into(wide, own.contiguous());
    nodes.add(wide);
  }
  return nodes.take();
}

}  // namespace ultra::ops
