#include "chapters/01_memory/recompute.hpp"

#include <string>

namespace ultra::memory {

using nn::Saved;

// [region full]
Tensor FullRecompute::forward(const Tensor& x, Saved& saved) {
  saved.put("input", x);
  Saved nothing(Saved::Mode::kDiscard, saved.pass());
  return inner_->forward(x, nothing);
}

Tensor FullRecompute::backward(const Tensor& d_y, Saved& saved) {
  Saved again = saved.recomputing();
  static_cast<void>(inner_->forward(saved.take("input"), again));
  return inner_->backward(d_y, again);
}
// [/region]

// [region selective]
void forget_remakeable(Saved& kept) {
  for (nn::Remakeable& each : kept.remakeables()) {
    kept.for_each([&](const std::string& path, const Tensor& tensor) {
      if (tensor.shares_storage(each.tensor)) each.paths.push_back(path);
    });
    for (const std::string& path : each.paths) kept.drop(path);
    each.tensor = Tensor();  // the last that holds it: now its memory is free
  }
}

void remake(Saved& kept) {
  for (const nn::Remakeable& each : kept.remakeables()) {
    const Tensor tensor = each.make();
    for (const std::string& path : each.paths) kept.put(path, tensor);
  }
  kept.remakeables().clear();  // what they are made from is free where the backward pass used it
}
// [/region]

}  // namespace ultra::memory
