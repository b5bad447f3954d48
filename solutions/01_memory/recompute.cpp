#include "chapters/01_memory/recompute.hpp"

#include "common/ops/swiglu.hpp"

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
Tensor SelectiveRecompute::forward(const Tensor& x, Saved& saved) {
  const Tensor y = block_->forward(x, saved);
  saved.child("attention").child("qkv").drop("input");
  Saved& feed_forward = saved.child("feed_forward");
  feed_forward.child("gate_up").drop("input");
  feed_forward.child("down").drop("input");
  return y;
}

Tensor SelectiveRecompute::backward(const Tensor& d_y, Saved& saved) {
  Saved nothing(Saved::Mode::kDiscard, saved.pass());
  Saved& feed_forward = saved.child("feed_forward");
  const auto norm_output = [&](nn::Layer& norm, const char* name) {
    return norm.forward(saved.child(name).get("input"), nothing);
  };
  saved.child("attention")
      .child("qkv")
      .put("input", norm_output(block_->attention_norm(), "attention_norm"));
  feed_forward.child("gate_up").put("input", norm_output(block_->ffn_norm(), "ffn_norm"));
  feed_forward.child("down").put("input",
                                 ops::swiglu(feed_forward.get("gate"), feed_forward.get("up")));
  return block_->backward(d_y, saved);
}
// [/region]

}  // namespace ultra::memory
