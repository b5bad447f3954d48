#include "chapters/08_expert_parallel/top_k_routing.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "common/base/numeric.hpp"
#include "common/tensor/host_view.hpp"

namespace ultra::expert_parallel {
namespace {

/// One token: its best experts and their weights.
template <class T>
class TokenRouter {
 public:
  TokenRouter(std::size_t experts, std::vector<T> biases, std::size_t top_k)
      : biases_(std::move(biases)), top_k_(top_k), scores_(experts), order_(experts) {}

  // [region route]
  void route(const T* affinities, std::int32_t* experts, T* weights) {
    for (std::size_t e = 0; e < scores_.size(); ++e) {
      scores_[e] = affinities[e] + (biases_.empty() ? T{0} : biases_[e]);
    }
    std::iota(order_.begin(), order_.end(), 0);
    // Equal scores by number: the choice must not depend on how a library sorts.
    std::partial_sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(top_k_),
                      order_.end(), [this](std::int32_t a, std::int32_t b) {
                        const T first = scores_[static_cast<std::size_t>(a)];
                        const T second = scores_[static_cast<std::size_t>(b)];
                        return first != second ? first > second : a < b;
                      });
    T sum = 0;
    for (std::size_t k = 0; k < top_k_; ++k) {
      experts[k] = order_[k];
      sum += affinities[order_[k]];
    }
    if (top_k_ == 1) sum = 1;
    for (std::size_t k = 0; k < top_k_; ++k) weights[k] = affinities[order_[k]] / sum;
  }
  // [/region]

 private:
  std::vector<T> biases_;  // empty: none
  std::size_t top_k_;
  std::vector<T> scores_;
  std::vector<std::int32_t> order_;
};

template <class T>
std::vector<T> numbers_of(const Tensor& biases) {
  if (!biases.defined()) return {};
  const HostView<const T> numbers(biases);
  return {numbers.begin(), numbers.end()};
}

}  // namespace

Routing top_k_routing(const Tensor& affinities, const Tensor& biases, std::size_t top_k) {
  const std::size_t tokens = affinities.size(0);
  const std::size_t experts = affinities.size(1);
  const Device& device = affinities.device();
  Routing routing{.experts = Tensor::empty(device, {tokens, top_k}, DType::kI32),
                  .weights = Tensor::empty(device, {tokens, top_k}, affinities.dtype())};
  dispatch_float(affinities.dtype(), [&]<class T>() {
    TokenRouter<T> router(experts, numbers_of<T>(biases), top_k);
    const HostView<const T> of_tokens(affinities);
    const HostView<std::int32_t> chosen(routing.experts, HostAccess::kWrite);
    const HostView<T> weights(routing.weights, HostAccess::kWrite);
    for (std::size_t t = 0; t < tokens; ++t) {
      router.route(of_tokens.data() + t * experts, chosen.data() + t * top_k,
                   weights.data() + t * top_k);
    }
  });
  return routing;
}

}  // namespace ultra::expert_parallel
